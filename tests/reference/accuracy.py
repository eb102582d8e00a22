"""The figures of an accuracy matrix as plain loops over its definition."""


def average(matrix: list[list[float]]) -> float:
    total = 0.0
    for value in matrix[-1]:
        total += value
    return total / len(matrix[-1])


def forgetting(matrix: list[list[float]]) -> float:
    tasks = len(matrix)
    total = 0.0
    for task in range(tasks - 1):
        best = matrix[task][task]
        for stage in range(tasks - 1):
            if stage >= task and matrix[stage][task] > best:
                best = matrix[stage][task]
        total += best - matrix[tasks - 1][task]
    return total / (tasks - 1)


def backward_transfer(matrix: list[list[float]]) -> float:
    tasks = len(matrix)
    total = 0.0
    for task in range(tasks - 1):
        total += matrix[tasks - 1][task] - matrix[task][task]
    return total / (tasks - 1)


def forward_transfer(matrix: list[list[float]], untrained: list[float]) -> float:
    tasks = len(matrix)
    total = 0.0
    for task in range(1, tasks):
        total += matrix[task - 1][task] - untrained[task]
    return total / (tasks - 1)
