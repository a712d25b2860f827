"""The metrics of GLUE, against their definitions counted out one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headway.evaluate.labels import class_scores, number_scores


def drawn(seed: int, n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    truth = random.integers(0, n_classes, n)
    told = np.where(random.random(n) < 0.6, truth, random.integers(0, n_classes, n))
    return truth, told


def f1_of(truth: list[int], told: list[int], label: int) -> float:
    right = sum(a == b == label for a, b in zip(truth, told, strict=True))
    precision = right / told.count(label) if label in told else 0.0
    recall = right / truth.count(label) if label in truth else 0.0
    return 2 * precision * recall / (precision + recall) if right else 0.0


def correlation(one: list[float], other: list[float]) -> float:
    n = len(one)
    a, b = sum(one) / n, sum(other) / n
    shared = sum((x - a) * (y - b) for x, y in zip(one, other, strict=True))
    return shared / math.sqrt(sum((x - a) ** 2 for x in one) * sum((y - b) ** 2 for y in other))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_classes(seed: int, n_classes: int) -> None:
    truth, told = drawn(seed, 40, n_classes)
    found = class_scores(truth, told, n_classes)
    a, b = truth.tolist(), told.tolist()
    assert found["accuracy"] == pytest.approx(100 * sum(map(int.__eq__, a, b)) / 40)
    each = [f1_of(a, b, label) for label in range(n_classes)]
    wanted = each[1] if n_classes == 2 else sum(each) / n_classes
    assert found["f1"] == pytest.approx(100 * wanted)
    # Gorodkin 2004, equation 2: the correlation of the two tables of which row has which class
    tables = [[[float(label == k) for k in range(n_classes)] for label in side] for side in (a, b)]
    means = [[sum(column) / 40 for column in zip(*table, strict=True)] for table in tables]

    def shared(one: int, other: int) -> float:
        return sum(
            (tables[one][i][k] - means[one][k]) * (tables[other][i][k] - means[other][k])
            for i in range(40)
            for k in range(n_classes)
        )

    wanted = shared(0, 1) / math.sqrt(shared(0, 0) * shared(1, 1))
    assert found["matthews"] == pytest.approx(100 * wanted)


def test_one_class_throughout_has_no_correlation() -> None:
    truth = np.array([0, 1, 1, 0])
    found = class_scores(truth, np.zeros(4, np.int64), 2)
    assert found == {"accuracy": 50.0, "f1": 0.0, "matthews": 0.0}


@pytest.mark.parametrize("seed", range(5))
def test_numbers(seed: int) -> None:
    random = np.random.default_rng(seed)
    truth = random.integers(0, 6, 30).astype(float)  # with ties
    told = truth + random.normal(size=30)
    found = number_scores(truth, told)
    assert found["pearson"] == pytest.approx(100 * correlation(truth.tolist(), told.tolist()))

    def ranks(numbers: list[float]) -> list[float]:
        return [
            sum(other < each for other in numbers) + (numbers.count(each) + 1) / 2
            for each in numbers
        ]

    wanted = correlation(ranks(truth.tolist()), ranks(told.tolist()))
    assert found["spearman"] == pytest.approx(100 * wanted)


def test_equal_numbers_have_no_correlation() -> None:
    for told in (np.ones(4), np.full(4, 0.1)):  # of which the mean is another number
        found = number_scores(np.arange(4.0), told)
        assert all(map(math.isnan, found.values()))
    assert math.isnan(number_scores(np.full(6, 0.7), np.full(6, 0.1))["pearson"])
