"""Training columns: one rule for which classes compete, applied in one place."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from esacl.config import Config, TrainConfig
from esacl.errors import ConfigError
from esacl.methods import METHODS, resolve, training_columns
from esacl.objectives.er import Er, ErOptions
from esacl.objectives.mtl import Mtl
from esacl.optim.gpm import Gpm, GpmOptions
from esacl.options import NoOptions
from tests.builders import batch, config, context, network, outputs_of, stream

STREAM = stream()
RULES = {"all": range(6), "seen": range(4), "task": range(2, 4)}


def er(rule: Any, mask: str = "ce") -> Er:
    part = Er(ErOptions(8, 8), context(STREAM, columns=rule, fit_loss=mask))
    part.begin_task(network(), STREAM.tasks[1])
    return part


def logits(count: int) -> torch.Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("rule", RULES)
def test_the_columns_of_the_rule_compete_in_the_fit_loss(rule: str) -> None:
    examples, given, own = batch(8, STREAM, 1), logits(8), list(RULES[rule])
    expected = cross_entropy(given[:, own], examples.y - own[0], reduction="none")
    torch.testing.assert_close(er(rule).fit_loss(outputs_of(given), examples), expected)


def test_the_batch_mask_and_the_rule_admit_what_both_admit() -> None:
    examples, given = batch(8, STREAM, 1), logits(8)
    both = er("task", "ace").fit_loss(outputs_of(given), examples)
    torch.testing.assert_close(both, cross_entropy(given[:, 2:4], examples.y - 2, reduction="none"))


def test_a_replayed_example_competes_within_its_own_task() -> None:
    given, y = logits(2), torch.tensor([1, 2])
    kept = er("task").competing(given, y) > -1e3
    assert kept.tolist() == [[True, True, False, False, False, False], [False, False, True, True, False, False]]


def test_joint_training_lets_each_example_compete_within_its_own_task() -> None:
    part = Mtl(NoOptions(), context(STREAM, columns="task"))
    kept = part.competing(logits(2), torch.tensor([0, 5])) > -1e3
    assert kept.tolist() == [[True, True, False, False, False, False], [False, False, False, False, True, True]]


def test_methods_train_on_the_columns_of_their_authors_code() -> None:
    found = {name: row.columns(row.default_options()) for name, row in METHODS.items()}
    assert {name for name, rule in found.items() if rule == "task"} == {
        *("lwf", "gpm", "la-maml", "packnet", "wsn", "nispa", "grow")
    }
    assert {name for name, rule in found.items() if rule == "seen"} == {"icarl", "esacl-icarl"}


def test_a_task_of_one_class_is_refused_where_nothing_else_competes() -> None:
    alone = context(STREAM, columns="task", task_classes=((0, 1), (2,)))
    with pytest.raises(ConfigError, match=r"a task has one class only\. Use train\.columns = 'seen'"):
        Er(ErOptions(8, 8), alone)
    assert Er(ErOptions(8, 8), replace(alone, columns="seen")).task == 0


def test_runs_of_before_there_was_a_choice_go_on_by_their_methods_rule() -> None:
    for name, rule in {"lwf": "task", "packnet": "task", "icarl": "seen", "er": "all"}.items():
        resolved = resolve(config(name), STREAM)
        assert resolved.train.columns == rule
        earlier = replace(resolved, train=replace(resolved.train, columns=None))
        assert training_columns(earlier) == rule


def test_icarl_refuses_to_leave_earlier_columns_out() -> None:
    train = TrainConfig(epochs=1, batch_size=8, columns="task")
    with pytest.raises(ConfigError, match=r"icarl: each column is a sigmoid .* Use train\.columns = 'seen'"):
        resolve(config("icarl", train=train), STREAM)


def test_a_part_that_is_chosen_by_flag_brings_its_rule() -> None:
    assert training_columns(Config.of(method="er")) == "all"
    assert training_columns(Config.of(method="er", constraint="gpm")) == "task"
    assert training_columns(Config.of(method="er", constraint="gpm", columns="seen")) == "seen"


def test_the_widest_rule_of_several_parts_counts() -> None:
    assert training_columns(Config.of(method="icarl", constraint="gpm")) == "seen"
    assert training_columns(Config.of(method="packnet-lwf")) == "task"
    assert training_columns(Config.of(method="packnet-er", constraint="gpm")) == "all"


def test_gpm_projects_the_head_where_tasks_share_classes() -> None:
    shared = context(STREAM, columns="task", task_classes=((0, 1), (1, 2)))
    alone = context(STREAM, columns="task")
    for known, expected in ((shared, set()), (alone, {"head.weight", "head.bias"})):
        part = Gpm(GpmOptions(), known)
        part.attach(network())
        assert part._separate == expected


def test_with_ace_replayed_examples_compete_among_all_classes_seen() -> None:
    known = resolve(config("er", train=TrainConfig(fit_loss="ace")), STREAM).train.columns
    assert known == "seen"
    part, given, y = er(known, "ace"), logits(2), torch.tensor([0, 3])
    kept = part.competing(given, y) > -1e3
    assert kept.tolist() == [[True] * 4 + [False] * 2] * 2
    examples = batch(8, STREAM, 1)
    fit = part.fit_loss(outputs_of(logits(8)), examples)
    present = sorted(set(examples.y.tolist()))
    assert present == [2, 3], "and current ones among those of their batch"
    torch.testing.assert_close(fit, cross_entropy(logits(8)[:, 2:4], examples.y - 2, reduction="none"))


def test_with_ace_remembered_examples_in_a_batch_compete_among_all_seen() -> None:
    """As in methods that mix their memory into the task, such as icarl."""
    part, given = er("seen", "ace"), logits(3)
    mixed = replace(batch(3, STREAM, 1), y=torch.tensor([0, 2, 2]), task=torch.tensor([0, 1, 1]))
    fit = part.fit_loss(outputs_of(given), mixed)
    torch.testing.assert_close(fit[0], cross_entropy(given[0, :4], torch.tensor(0)))
    torch.testing.assert_close(fit[1:], cross_entropy(given[1:, [0, 2]], torch.tensor([1, 1]), reduction="none"))


def test_a_logit_mask_is_another_name_of_the_fit_loss() -> None:
    assert Config.of(logit_mask="batch") == Config.of(fit_loss="ace")
    assert Config.of(logit_mask="none") == Config.of()
    assert Config.from_mapping({"train": {"logit_mask": "batch", "columns": "all"}}).train.columns == "all"
    with pytest.raises(ConfigError, match=r"another name of train\.fit_loss = 'ace', but train\.fit_loss = 'ce'"):
        Config.of(logit_mask="batch", fit_loss="ce")
    with pytest.raises(ConfigError, match="'none' or 'batch'"):
        Config.from_mapping({"train": {"logit_mask": 3}})
