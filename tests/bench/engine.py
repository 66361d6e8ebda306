"""Processor time of a step of the engine and of PyTorch, which take turns on one thread.

usage: engine.py BENCH_ENGINE [MODEL...]

Prints a line a model: both medians and their ratio; then what BENCH_ENGINE says alone.
Without PyTorch only the engine is measured. A model is one function and one line of the
table below, and one line of engine.c's, under the same name.
"""

import os
import statistics
import subprocess
import sys
import time

# Must be set before the libraries are loaded; torch.set_num_threads does not reach BLAS.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    torch = None

ROUNDS = 15
STEPS = 2


def mlp():
    layers = []
    for _ in range(8):
        layers += [nn.Linear(1024, 1024), nn.ReLU()]
    inputs, labels = torch.randn(128, 1024), torch.randint(0, 1024, (128,))
    return nn.Sequential(*layers[:-1]), inputs, labels


def language_model():
    vocabulary, length, width, depth, heads, batch = 256, 128, 256, 4, 4, 8

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x, mask):
            qkv = self.qkv(self.norm1(x)).view(batch, length, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            scores = q @ k.transpose(-1, -2) * (width // heads) ** -0.5
            context = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
            x = x + self.out(context.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.positions = nn.Parameter(0.02 * torch.randn(length, width))
            self.blocks = nn.ModuleList(Block() for _ in range(depth))
            self.norm = nn.LayerNorm(width)
            self.mask = torch.ones(length, length, dtype=torch.bool).triu(1)
            nn.init.normal_(self.embedding.weight, std=0.02)

        def forward(self, tokens):
            x = self.embedding(tokens) + self.positions
            for block in self.blocks:
                x = block(x, self.mask)
            return functional.linear(self.norm(x), self.embedding.weight)

    tokens = torch.randint(0, vocabulary, (batch, length + 1))
    return Model(), tokens[:, :-1], tokens[:, 1:].reshape(-1)


def residual_network():
    class Block(nn.Module):
        def __init__(self, narrow, wide, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(narrow, wide, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(wide, wide, 3, 1, 1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(wide), nn.BatchNorm2d(wide)
            self.project = nn.Identity()
            if stride != 1:
                self.project = nn.Sequential(
                    nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))

        def forward(self, x):
            y = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
            return functional.relu(y + self.project(x))

    blocks, narrow = [], 64
    for wide in (64, 128, 256, 512):
        blocks += [Block(narrow, wide, wide // narrow), Block(wide, wide, 1)]
        narrow = wide
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64),
                          nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(512, 10))
    return model, torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.001)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


MODELS = {
    "mlp": (mlp, adam),
    "mlp-sgd": (mlp, sgd),
    "transformer_lm": (language_model, adam),
    "resnet18": (residual_network, sgd),
}


class Torch:
    def __init__(self, name):
        torch.manual_seed(1)
        build, optimizer = MODELS[name]
        self.model, self.inputs, self.labels = build()
        self.optimizer = optimizer(self.model.parameters())

    def steps(self, count):
        start = time.process_time()
        for _ in range(count):
            self.optimizer.zero_grad()
            logits = self.model(self.inputs)
            logits = logits.reshape(-1, logits.shape[-1])
            functional.cross_entropy(logits, self.labels).backward()
            self.optimizer.step()
        return time.process_time() - start


class Engine:
    def __init__(self, program, name):
        self.process = subprocess.Popen([program, "step", name], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(program, name):
    engine, other = Engine(program, name), Torch(name)
    times = [], []
    for turn in range(ROUNDS + 1):
        for runner, results in zip((engine, other), times):
            seconds = runner.steps(STEPS if turn > 0 else 1) / STEPS
            if turn > 0:
                results.append(seconds)
    engine.close()
    ours, theirs = (statistics.median(results) for results in times)
    print(f"{name:16} {1e3 * ours:8.2f} ms a step, PyTorch {1e3 * theirs:8.2f} ms, "
          f"ratio {ours / theirs:.3f}", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, names = sys.argv[1], sys.argv[2:]
    if torch is None:
        print("PyTorch is absent: the engine alone", flush=True)
    else:
        torch.set_num_threads(1)
        listed = subprocess.run([program, "list"], text=True, check=True,
                                stdout=subprocess.PIPE).stdout.split()
        for name in names or listed:
            if name in MODELS:
                measure(program, name)
    if not names:
        sys.exit(subprocess.run([program]).returncode)


if __name__ == "__main__":
    main()
