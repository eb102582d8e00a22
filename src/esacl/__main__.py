"""The entry of the command line, also as `python -m esacl`."""


def main() -> None:
    """Import and run the command line; an interrupt is answered from the first moment on."""
    try:
        from esacl.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
