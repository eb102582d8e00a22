"""One run on several processes: who starts them, what they are told, and what happens when one of them dies."""
