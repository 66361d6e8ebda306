#!/usr/bin/env python3
"""Layers, losses and optimisers as PyTorch computes them, in double precision.

    torch_reference.py SEED SIZE FILE

writes cases with random numbers and random shapes (sizes up to SIZE, of one and odd ones
among them) as JSON. tests/test_torch.c holds the engine against it. tests/golden/torch.json
was written by "torch_reference.py 1 3". Exit status 77: PyTorch is not installed.
"""
import json
import random
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(77)

LAYERS = {}
STATE = []  # what the function of the case leaves as the layer's state


def layer(function):
    """A generator of cases of one kind: yields (options, batch, input shapes,
    parameter shapes, function of inputs and parameters)."""
    LAYERS[function.__name__] = function
    return function


def size(low=1):
    return random.randint(low, max(low, SIZE))


def shape(rank):
    return [size() for _ in range(rank)]


@layer
def linear():
    for rank in 1, 2, 3:
        inputs, out, bias = shape(rank), size(), rank != 2
        parameters = [[out, inputs[-1]]] + ([[out]] if bias else [])
        yield ({"out": out, "bias": int(bias)}, size(), [inputs], parameters,
               lambda x, w, b=None: F.linear(x, w, b))


@layer
def bias():
    for rank in 1, 2:
        inputs = shape(rank)
        yield {}, size(), [inputs], [[inputs[-1]]], lambda x, b: x + b


@layer
def relu():
    for rank in 1, 3:
        yield {}, size(), [shape(rank)], [], F.relu


@layer
def gelu():
    for rank in 1, 2:
        yield {}, size(), [shape(rank)], [], F.gelu
    yield ({"tanh": 1}, size(), [shape(2)], [],
           lambda x: F.gelu(x, approximate="tanh"))


@layer
def flatten():
    for rank in 1, 3:
        yield {}, size(), [shape(rank)], [], lambda x: torch.flatten(x, 1)


@layer
def copy():
    for rank in 1, 2:
        yield {}, size(), [shape(rank)], [], lambda x: x * 1


@layer
def add():
    for count in 2, 3:
        yield {}, size(), [shape(2)] * count, [], lambda *x: sum(x)


@layer
def layer_norm():
    for rank, epsilon in (1, 1e-5), (2, 0.1), (3, 1e-5):
        inputs = shape(rank - 1) + [size(3)]  # two alone have almost no gradient
        width = inputs[-1]
        yield ({"epsilon": epsilon}, size(), [inputs], [[width], [width]],
               lambda x, w, b, e=epsilon: F.layer_norm(x, [x.shape[-1]], w, b, e))


@layer
def slice():
    for rank in 1, 3:
        inputs = shape(rank)
        first = random.randint(0, inputs[0] - 1)
        count = random.randint(1, inputs[0] - first)
        yield ({"first": first, "count": count}, size(), [inputs], [],
               lambda x, f=first, c=count: x[:, f:f + c])


@layer
def embedding():
    for scaled in 0, 1:
        vocabulary, width = size(2), size()
        yield ({"vocabulary": vocabulary, "width": width, "scaled": scaled}, size(),
               [[size()]], [[vocabulary, width]],
               lambda x, w, s=scaled: F.embedding(x.long(), w) *
               (w.shape[1] ** 0.5 if s else 1))


def waves(length, width):
    place = torch.arange(length, dtype=torch.double)[:, None]
    column = torch.arange(width, dtype=torch.double)[None, :]
    angle = place / 10000 ** (2 * torch.floor(column / 2) / width)
    return torch.where(column % 2 == 0, torch.sin(angle), torch.cos(angle))


@layer
def positions():
    inputs = shape(2)
    yield {"learned": 1}, size(), [inputs], [inputs], lambda x, w: x + w
    yield {"learned": 0}, size(), [shape(2)], [], lambda x: x + waves(*x.shape[1:])


def attend(q, k, v, heads, causal):
    """Softmax attention, heads side by side in the last dimension."""
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)


def self_attention(x, heads, causal, w_in, w_out, b_in=None, b_out=None):
    context = attend(*F.linear(x, w_in, b_in).chunk(3, -1), heads, causal)
    return F.linear(context, w_out, b_out)


@layer
def attention():
    for causal, bias in (0, 1), (1, 1), (1, 0):
        heads, length = random.randint(1, 3), size()
        width = heads * random.randint(1, 2)
        parameters = [[3 * width, width], [width, width], [3 * width], [width]]
        yield ({"heads": heads, "causal": causal, "bias": bias}, size(),
               [[length, width]], parameters[:4 if bias else 2],
               lambda x, *p, h=heads, c=causal: self_attention(x, h, c, *p))


def attention_to(x, memory, heads, w_q, w_kv, w_out, b_q=None, b_kv=None, b_out=None):
    k, v = F.linear(memory, w_kv, b_kv).chunk(2, -1)
    return F.linear(attend(F.linear(x, w_q, b_q), k, v, heads, False), w_out, b_out)


@layer
def cross_attention():
    for bias in 0, 1:
        heads, other = random.randint(1, 3), size()
        width = heads * random.randint(1, 2)
        parameters = [[width, width], [2 * width, other], [width, width],
                      [width], [2 * width], [width]]
        yield ({"heads": heads, "bias": bias}, size(), [[size(), width], [size(), other]],
               parameters[:6 if bias else 3],
               lambda x, m, *p, h=heads: attention_to(x, m, h, *p))


@layer
def conv2d():
    for kernel, stride, padding, groups, bias in (
            (3, 1, 1, 1, 0), (3, 2, 1, 2, 1), (1, 1, 0, 1, 0), (1, 2, 0, 1, 1),
            (5, 3, 2, 1, 1), (3, 1, 0, 3, 0)):
        channels, out = groups * random.randint(1, 2), groups * random.randint(1, 2)
        image = [channels, size(kernel), size(kernel)]
        parameters = [[out, channels // groups, kernel, kernel]] + ([[out]] if bias else [])
        yield ({"channels": out, "kernel": kernel, "stride": stride, "padding": padding,
                "groups": groups, "bias": bias}, random.randint(1, 3), [image], parameters,
               lambda x, w, b=None, s=stride, p=padding, g=groups:
               F.conv2d(x, w, b, stride=s, padding=p, groups=g))


@layer
def batch_norm():
    for rank, epsilon in (3, 1e-5), (1, 0.1):
        inputs = shape(rank)
        options = {"epsilon": epsilon, "momentum": 0.3}

        def normalise(x, w, b, options=options):
            mean, variance = torch.zeros_like(w), torch.ones_like(w)
            y = F.batch_norm(x, mean, variance, w, b, True, 0.3, options["epsilon"])
            STATE.extend(mean.tolist() + variance.tolist())
            return y
        yield options, random.randint(3, 4), [inputs], [[inputs[0]]] * 2, normalise


@layer
def group_norm():
    for rank, groups, epsilon in (3, 2, 1e-5), (3, 1, 0.1), (1, 2, 1e-5):
        channels = groups * random.randint(3, 4)
        yield ({"groups": groups, "epsilon": epsilon}, size(),
               [[channels] + shape(rank - 1)], [[channels]] * 2,
               lambda x, w, b, g=groups, e=epsilon: F.group_norm(x, g, w, b, e))


def windows():
    for kernel, stride, padding in (3, 2, 1), (2, 2, 0), (1, 1, 0), (2, 3, 1):
        yield kernel, stride, padding, [size(), size(kernel), size(kernel)]


@layer
def max_pool():
    for k, s, p, image in windows():
        yield ({"kernel": k, "stride": s, "padding": p}, random.randint(1, 3), [image], [],
               lambda x, k=k, s=s, p=p: F.max_pool2d(x, k, s, p))


@layer
def average_pool():
    for k, s, p, image in windows():
        yield ({"kernel": k, "stride": s, "padding": p}, random.randint(1, 3), [image], [],
               lambda x, k=k, s=s, p=p: F.avg_pool2d(x, k, s, p))


@layer
def global_average_pool():
    yield {}, size(), [shape(3)], [], lambda x: x.mean((2, 3))


def numbers(*extents):
    """Random numbers that a float holds exactly."""
    return torch.randn(*extents).float().double()


def listed(tensor):
    return [float("%.9g" % value) for value in tensor.detach().flatten().tolist()]


def layer_case(kind, options, batch, input_shapes, parameter_shapes, function):
    vocabulary = options.get("vocabulary", 0)
    if vocabulary > 0:
        inputs = [torch.randint(vocabulary, (batch, *input_shapes[0])).double()]
    else:
        inputs = [numbers(batch, *s).requires_grad_() for s in input_shapes]
    parameters = [numbers(*s).requires_grad_() for s in parameter_shapes]
    STATE.clear()
    output = function(*inputs, *parameters)
    d_output = numbers(*output.shape)
    output.backward(d_output)
    return {"kind": kind, "options": options, "batch": batch, "shapes": input_shapes,
            "vocabulary": vocabulary,
            "inputs": [listed(x) for x in inputs],
            "parameters": [listed(x) for x in parameters],
            "state": list(STATE), "output": listed(output), "d_output": listed(d_output),
            "d_inputs": [listed(x.grad) for x in inputs if vocabulary == 0],
            "d_parameters": [listed(x.grad) for x in parameters]}


def loss_case(name, rows, classes, argument, function):
    logits, teacher = numbers(rows, classes).requires_grad_(), numbers(rows, classes)
    labels = torch.randint(classes, (rows,))
    if rows > 1:
        labels[rows // 2] = -1
    loss = function(logits, teacher, labels)
    loss.backward()
    return {"loss": name, "rows": rows, "classes": classes, "argument": argument,
            "logits": listed(logits), "teacher": listed(teacher),
            "labels": labels.tolist(), "value": loss.item(), "gradient": listed(logits.grad)}


def losses():
    for _ in range(2):
        rows, classes, t = size(), size(2), 1 + random.random()
        for smoothing in 0, 0.1:
            yield loss_case(
                "cross_entropy", rows, classes, smoothing,
                lambda z, b, y, s=smoothing: F.cross_entropy(
                    z, y, ignore_index=-1, reduction="sum", label_smoothing=s))
        yield loss_case("mean_square", rows, classes, 0,
                        lambda z, b, y: F.mse_loss(z, b, reduction="none").mean(1).sum())
        yield loss_case("kl", rows, classes, t,
                        lambda z, b, y, t=t: t * t * F.kl_div(
                            F.log_softmax(z / t, 1), F.softmax(b / t, 1), reduction="sum"))


OPTIMIZERS = [
    ({"kind": "sgd", "learning_rate": 0.1, "momentum": 0},
     lambda p: torch.optim.SGD(p, lr=0.1)),
    ({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01},
     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01)),
    ({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.8, "nesterov": True,
      "weight_decay": 0.01},
     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.01)),
    ({"kind": "adam", "learning_rate": 0.1, "weight_decay": 0.01},
     lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.01)),
    ({"kind": "adamw", "learning_rate": 0.1, "beta1": 0.8, "beta2": 0.99,
      "weight_decay": 0.1},
     lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.8, 0.99), weight_decay=0.1)),
    ({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9, "clip_norm": 0.5},
     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
]


def optimizer_case(options, make):
    """Ten steps; all parameters decay, since that is what PyTorch does."""
    parameter = numbers(SIZE * 3 + 1).requires_grad_()
    case = {"options": options, "start": listed(parameter), "gradients": []}
    optimizer = make([parameter])
    for _ in range(10):
        gradient = numbers(*parameter.shape)
        case["gradients"].append(listed(gradient))
        parameter.grad = gradient.clone()
        if "clip_norm" in options:
            torch.nn.utils.clip_grad_norm_([parameter], options["clip_norm"])
        optimizer.step()
    case["result"] = listed(parameter)
    return case


def main():
    cases = {
        "layers": [layer_case(kind, *case) for kind, make in LAYERS.items()
                   for case in make()],
        "losses": list(losses()),
        "optimizers": [optimizer_case(*case) for case in OPTIMIZERS],
    }
    with open(sys.argv[3], "w", encoding="ascii") as file:
        json.dump(cases, file, separators=(",", ":"))
        file.write("\n")


SIZE = int(sys.argv[2])
random.seed(int(sys.argv[1]))
torch.manual_seed(int(sys.argv[1]))
main()
