import pytest
import torch

import esacl as library
from esacl.config import Config
from esacl.deploy.opening import open_model
from esacl.errors import ConfigError
from esacl.nets.choice import two_step
from esacl.readouts.lda import Lda, LdaOptions
from esacl.readouts.two_step import TwoStep, TwoStepOptions
from esacl.rng import generator
from tests.builders import config, context, network
from tests.cli.commands import esacl
from tests.readouts.clouds import STREAM, remembered
from tests.reference import two_step as naive


def member(tasks: list[list[int]], classes: int) -> torch.Tensor:
    return torch.tensor([[column in own for own in tasks] for column in range(classes)])


@pytest.mark.parametrize("tasks", [[[0, 1], [2, 3], [4, 5]], [[3], [0, 1, 5]], [[5, 0]]])
def test_it_is_what_one_example_after_the_other_gives(tasks):
    draw = generator(0, "logits")
    logits, scores = (torch.randn(7, 6, generator=draw, dtype=torch.float64) for _ in range(2))
    found = two_step(logits, scores, member(tasks, 6)).softmax(1)
    expected = [naive.probabilities(a, b, tasks) for a, b in zip(logits.tolist(), scores.tolist())]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_logits_far_apart_stay_finite():
    logits = torch.tensor([[500.0, -500.0, -900.0, -1000.0]])
    found = two_step(logits, torch.tensor([[0.0, 0.0, 300.0, 0.0]]), member([[0, 1], [2, 3]], 4))
    assert found.isfinite().all()
    assert found.argmax().item() == 2


def fitted(kind, upto=1):
    net = network()
    made = kind(LdaOptions(shrinkage=0.3), context(STREAM))
    made.attach(net)
    for task in STREAM.tasks[: upto + 1]:
        made.fit(net, task, remembered(*range(2 * task.index), each=5) if task.index else None)
    return net, made


def test_the_task_is_that_of_lda_and_the_class_that_of_the_head():
    net, made = fitted(TwoStep)
    lda = fitted(Lda)[1]
    x = torch.cat([STREAM.inputs.plain(task.test.x) for task in STREAM.tasks])
    with net.inference():
        found = made.logits(net, x, None).softmax(1)
        theirs = lda.logits(net, x, None).softmax(1)
        head = net(x).logits
    assert (found[:, 4:] < 1e-6).all(), "classes that were not seen"
    for columns in ([0, 1], [2, 3]):
        torch.testing.assert_close(found[:, columns].sum(1), theirs[:, columns].sum(1), atol=1e-5, rtol=1e-4)
        assert torch.equal(found[:, columns].argmax(1), head[:, columns].argmax(1))


def test_a_class_that_returns_belongs_to_its_last_task():
    made = TwoStep(TwoStepOptions(), context(STREAM, task_classes=((0, 1), (1, 2), (2, 3))))
    made.attach(network())
    made.fit(network(), STREAM.tasks[0], None)
    assert made.member.nonzero().tolist() == [[0, 0], [1, 0]]
    made.fit(network(), STREAM.tasks[1], remembered(0, 1))
    assert made.member.nonzero().tolist() == [[0, 0], [1, 1], [2, 1]]


def test_it_goes_on_from_its_state():
    net, made = fitted(TwoStep)
    again = TwoStep(TwoStepOptions(), context(STREAM))
    again.attach(net)
    again.load_state_dict(made.state_dict())
    x = STREAM.inputs.plain(STREAM.tasks[0].test.x)
    with net.inference():
        assert torch.equal(again.logits(net, x, None), made.logits(net, x, None))


@pytest.mark.parametrize("method", ["co2l", "packnet", "finetune"])
def test_untrained_heads_weights_of_each_task_and_no_memory_are_refused(method, tmp_path):
    with pytest.raises(ConfigError, match=r"answer at random|every task with weights|remembers no examples"):
        library.run(Config.of(method=method, readout="two-step"), tmp_path / "run")


def test_a_saved_model_answers_as_it_was_evaluated(tmp_path):
    """Opened, exported in both forms, and cut to the columns of one task."""
    settings = config("grow-er", {"objective": {"buffer": 40, "replay": "none"}})
    settings = Config.from_mapping({**settings.to_mapping(), "parts": {"readout": "two-step"}})
    place = tmp_path / "run"
    library.run(settings, place, stream=STREAM)
    model = open_model(place)
    esacl("export", place, "--format", "safetensors", "--out", tmp_path / "model.safetensors")
    esacl("export", place, "--format", "onnx", "--out", tmp_path / "model.onnx")
    again = open_model(tmp_path / "model.safetensors")
    session = pytest.importorskip("onnxruntime").InferenceSession(tmp_path / "model.onnx")
    right = []
    for task in STREAM.tasks:
        images = task.test.x.float() / 255
        probabilities, logits = model.answering()(images)
        assert torch.equal(logits, again.answering()(images)[1])
        graph = torch.from_numpy(session.run(["probabilities"], {"images": images.numpy()})[0])
        torch.testing.assert_close(graph, probabilities, atol=1e-5, rtol=1e-4)
        right.append((logits.argmax(1) == task.test.y).double().mean().item())
        told = model.for_task(task.index + 1).answering()(images)[0]
        torch.testing.assert_close(told, logits[:, list(task.classes)].softmax(1))
    assert right == pytest.approx(model.accuracy["class_il"])
