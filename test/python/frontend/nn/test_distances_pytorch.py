"""Distances, losses of distances, lists of parameters and gradient modes: PyTorch's values and gradients."""

from typing import Any

import numpy as np
import pytest

import oneflow as flow
from oneflow import nn

torch = pytest.importorskip("torch", reason="compares with PyTorch, which tests do not depend on")

RNG = np.random.default_rng(3)
A, B, C = RNG.normal(size=(3, 5, 4))
SIGNS, POSITIVE = np.array([1.0, -1.0, 1.0, -1.0, 1.0]), np.abs(C) + 0.1
F = "nn.functional."
#: The function, the operands, of which the first ones get gradients, and options.
CASES = [
    ("normalize", (A,), {}),
    ("normalize", (A,), {"p": 1.0, "dim": 0}),
    ("normalize", (A * 0,), {}),
    ("cosine_similarity", (A, B), {}),
    ("cosine_similarity", (A, B), {"dim": 0, "eps": 1.0}),
    ("pairwise_distance", (A, B), {}),
    ("pairwise_distance", (A, A), {"p": 1.0, "keepdim": True}),
    ("cosine_embedding_loss", (A, B, SIGNS), {"margin": 0.1}),
    ("cosine_embedding_loss", (A, A, SIGNS), {"reduction": "none"}),
    ("triplet_margin_loss", (A, B, C), {}),
    ("triplet_margin_loss", (A, B, C), {"swap": True, "margin": 2.0, "reduction": "sum"}),
    ("margin_ranking_loss", (A[0], B[0], SIGNS[:4]), {"margin": 0.3}),
    ("hinge_embedding_loss", (A[:, 0], SIGNS), {}),
    ("soft_margin_loss", (A[:, 0], SIGNS), {"reduction": "none"}),
    ("poisson_nll_loss", (A, POSITIVE * 3), {"full": True}),
    ("poisson_nll_loss", (POSITIVE, POSITIVE), {"log_input": False}),
    ("gaussian_nll_loss", (A, B, POSITIVE), {"full": True}),
    ("gaussian_nll_loss", (A, B, POSITIVE[:, 0]), {"eps": 0.3}),
    ("rms_norm", (A.astype(np.float32) * 1e-4, (4,)), {}),
    ("rms_norm", (A * 1e-8, (4,)), {}),
]


def value_and_gradients(lib, name, operands, options):
    tensors = [lib.tensor(x) if isinstance(x, np.ndarray) else x for x in operands]
    wanted = [t.requires_grad_() for t in tensors if t is not tensors[-1] or len(tensors) == 1]
    result = getattr(lib.nn.functional, name)(*tensors, **options)
    (result * result).sum().backward()
    return [result.detach().numpy(), *(t.grad.numpy() for t in wanted)]


@pytest.mark.parametrize("name,operands,options", CASES)
def test_distance_functions(name, operands, options):
    ours, theirs = (value_and_gradients(lib, name, operands, options) for lib in (flow, torch))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, 1e-6, 1e-9)


LAYERS = [
    ("CosineSimilarity", (1, 1e-6), (A, B)),
    ("PairwiseDistance", (2.0,), (A, B)),
    ("CosineEmbeddingLoss", (0.2,), (A, B, SIGNS)),
    ("TripletMarginLoss", (0.5,), (A, B, C)),
    ("MarginRankingLoss", (0.5,), (A[0], B[0], SIGNS[:4])),
    ("HingeEmbeddingLoss", (0.5,), (A[:, 0], SIGNS)),
    ("SoftMarginLoss", (), (A[:, 0], SIGNS)),
    ("PoissonNLLLoss", (), (A, POSITIVE)),
    ("GaussianNLLLoss", (), (A, B, POSITIVE)),
    ("RMSNorm", (4,), (A.astype(np.float32) * 1e-4,)),
]


@pytest.mark.parametrize("name,options,operands", LAYERS)
def test_distance_layers(name, options, operands):
    ours, theirs = (getattr(lib.nn, name)(*options)(*map(lib.tensor, operands)).detach() for lib in (flow, torch))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-6)


def build(lib):
    class Net(lib.nn.Module):  # type: ignore[name-defined]
        def __init__(self):
            super().__init__()
            self.many = lib.nn.ParameterList([lib.tensor([1.0, 2.0]), lib.nn.Parameter(lib.tensor([3.0]))])
            self.named = lib.nn.ParameterDict({"b": lib.tensor([4.0])})
            self.named["a"] = lib.nn.Parameter(lib.tensor([5.0, 6.0]))
            self.many.append(lib.tensor([7.0]))
            self.many[1] = lib.tensor([8.0])

        def forward(self, x):
            return sum((x * p).sum() for p in self.many) + (self.named["a"] * self.named["b"]).sum()

    return Net()


def test_lists_and_dicts_of_parameters():
    ours, theirs = build(flow), build(torch)
    for net, lib in ((ours, flow), (theirs, torch)):
        net(lib.tensor([1.0, 2.0])).backward()
    for (n, a), (m, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (n, a.grad.tolist()) == (m, b.grad.tolist())
    assert flow.compile(ours)(np.array([1.0, 2.0], np.float32)).item() == theirs(torch.tensor([1.0, 2.0])).item()
    assert (len(ours.many), list(ours.named), "a" in ours.named) == (3, list(theirs.named), True)
    del ours.named["b"]
    assert [p.tolist() for p in ours.named.values()] == [[5.0, 6.0]] and len(ours.many[1:]) == 2
    assert list(ours.many[:2].state_dict()) == ["0", "1"] and isinstance(ours.many[0], nn.Parameter)


def test_modes_of_recording():
    w = flow.ones(2).requires_grad_()

    def results():
        enabled: Any = flow.enable_grad
        decorated: list[Any] = [
            flow.no_grad,
            flow.no_grad(),
            flow.inference_mode,
            flow.inference_mode(),
            flow.inference_mode(False),
        ]
        found = [d(lambda: (w * 2).requires_grad)() for d in decorated]
        with flow.no_grad():
            return [*found, enabled(lambda: (w * 2).requires_grad)(), (w * 2).requires_grad]

    assert results() == [False, False, False, False, True, True, False]
