"""Programs that import PyTorch, run with this project under PyTorch's name."""

import subprocess
import sys
import textwrap

import pytest

#: Programs, each with checks of the results.
PROGRAMS = {
    "a classifier": """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from torch.optim.lr_scheduler import StepLR
        from torch.utils.data import DataLoader, TensorDataset

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc1, self.dropout, self.fc2 = nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 2)

            def forward(self, x):
                x = F.relu(self.fc1(torch.flatten(x, 1)))
                return F.log_softmax(self.fc2(self.dropout(x)), dim=1)

        torch.manual_seed(0)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        data = torch.randn(64, 2, 4)
        labels = (data.sum(dim=(1, 2)) > 0).long()
        loader = DataLoader(TensorDataset(data, labels), batch_size=16, shuffle=True)
        model = Net().to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
        scheduler = StepLR(optimizer, step_size=5, gamma=0.7)
        for epoch in range(6):
            model.train()
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                optimizer.zero_grad()
                loss = F.nll_loss(model(x), y)
                loss.backward()
                optimizer.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            pred = model(data.to(device)).argmax(dim=1, keepdim=True)
        assert pred.eq(labels.view_as(pred)).sum().item() > 55
        assert optimizer.param_groups[0]["lr"] < 0.03
    """,
    "a language model": """
        import math
        import torch
        from torch import nn

        class Attention(nn.Module):
            def __init__(self, width, heads, length):
                super().__init__()
                self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

            def forward(self, x):
                B, T, C = x.size()
                q, k, v = self.qkv(x).split(C, dim=2)
                q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
                att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
                att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf")).softmax(dim=-1)
                return self.out((att @ v).transpose(1, 2).contiguous().view(B, T, C))

        class Model(nn.Module):
            def __init__(self, vocabulary=7, width=16, length=6):
                super().__init__()
                self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
                self.norm, self.attention = nn.LayerNorm(width), Attention(width, 2, length)
                self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
                self.head = nn.Linear(width, vocabulary, bias=False)
                self.head.weight = self.tokens.weight

            def forward(self, idx, targets=None):
                x = self.tokens(idx) + self.positions(torch.arange(idx.size(1), device=idx.device))
                x = x + self.attention(self.norm(x))
                logits = self.head(x + self.mlp(x))
                if targets is None:
                    return logits, None
                return logits, nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

        torch.manual_seed(1)
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2, betas=(0.9, 0.95), weight_decay=0.01)
        text = torch.arange(0, 70, dtype=torch.long) % 7
        for step in range(40):
            at = torch.randint(len(text) - 7, (8,))
            x = torch.stack([text[i : i + 6] for i in at])
            y = torch.stack([text[i + 1 : i + 7] for i in at])
            _, loss = model(x, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        assert loss.item() < 0.5, loss
        probs = torch.softmax(model(x)[0][:, -1, :] / 0.05, dim=-1)
        x = torch.cat((x, torch.multinomial(probs, num_samples=1)), dim=1)
        assert torch.equal(x[:, -1], y[:, -1])
    """,
    "a loop with mixed precision": """
        import torch
        from torch.cuda.amp import GradScaler

        torch.manual_seed(0)
        w = torch.nn.Parameter(torch.zeros(3, 1))
        optimizer, scaler = torch.optim.SGD([w], lr=0.1, momentum=0.9), GradScaler(init_scale=1024.0)
        x = torch.randn(32, 3)
        y = x @ torch.tensor([[1.0], [-2.0], [0.5]])
        for _ in range(80):
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                loss = ((x @ w).float() - y).pow(2).mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert torch.allclose(w.detach(), torch.tensor([[1.0], [-2.0], [0.5]]), atol=0.05), w
        assert isinstance(w, torch.Tensor) and w.dtype is torch.float32 and x.shape == torch.Size([32, 3])
    """,
}


def run(program):
    """Runs a program in a separate process."""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_pytorch_programs_run(name):
    run("import oneflow.mock_torch\noneflow.mock_torch.enable()\n" + textwrap.dedent(PROGRAMS[name]))


def test_enable_and_disable_mock_torch():
    run(
        textwrap.dedent("""
        import sys, types
        import oneflow
        from oneflow import mock_torch

        real = sys.modules["torch"] = types.ModuleType("torch")
        with mock_torch.enable(mock_version="2.1", extra_dict={"other": "oneflow.nn"}):
            import torch, torch.nn.functional as F, other
            assert torch.relu is oneflow.relu and F is not real and torch.__version__ == "2.1"
            assert other.Linear is oneflow.nn.Linear and torch.nn.parameter.Parameter is oneflow.nn.Parameter
            for missing in ("torch.nothing", "torch.nn.nothing"):
                try:
                    __import__(missing)
                except ModuleNotFoundError as error:
                    assert "has no counterpart" in str(error)
                else:
                    raise AssertionError(missing)
            assert not hasattr(torch, "nothing")
            import torch.version
            assert (torch.__package__, torch.nn.__package__) == ("oneflow", "oneflow.nn")
            assert torch.version.__version__ == "2.1" and torch.distributed.get_world_size() == 1
            with mock_torch.disable():
                import torch
                assert torch is real and not mock_torch.is_enabled()
            import torch
            assert torch.relu is oneflow.relu and mock_torch.is_enabled()
        import torch
        assert torch is real
        mock_torch.enable(lazy=True)
        import torch, torch.fictional.part as part
        assert not torch.nothing and not part.thing and part.thing.__name__ == "oneflow.fictional.part.thing"
        assert isinstance(torch.nothing, mock_torch.DummyModule) and list(torch.nothing) == []
        assert not isinstance(1, torch.nothing) and not issubclass(int, torch.nothing)
        try:
            torch.nothing(1)
        except NotImplementedError as error:
            assert "oneflow.nothing does not exist" in str(error)
        else:
            raise AssertionError
        try:
            with torch.nothing:
                raise AssertionError
        except RuntimeError as error:
            assert '"oneflow.nothing" does not exist' in str(error)
        mock_torch.disable()
        import torch
        assert torch is real
        with mock_torch.enable():
            assert torch.relu is oneflow.relu
            with mock_torch.enable(lazy=True):
                assert torch.relu is oneflow.relu and not torch.nothing
                with mock_torch.disable():
                    assert torch is real and sys.modules["torch"] is real
                assert torch.relu is oneflow.relu and not torch.nothing
            assert torch.relu is oneflow.relu and not hasattr(torch, "nothing")
        assert torch is real
        with mock_torch.disable():
            assert torch is real
        import os
        os.environ["ONEFLOW_DISABLE_MOCK_TORCH"] = "1"
        with mock_torch.enable():
            import torch
            assert torch is real
    """)
    )
