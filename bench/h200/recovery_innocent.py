#!/usr/bin/env python3
"""One program beside others that fault; recovery.py starts it.

    recovery_innocent.py NAME STOP

NAME is resnet50 or bert (inference, fp16, batch 1), cupy (a product, a sum and a kernel of its own),
numba (a kernel in place, made anew each step), or train or gpt2 (ResNet-18 or GPT-2 with AMP, which
catch an error and go on from their last checkpoint, kept in the host's memory). It runs, waiting for each
step, until the file STOP exists, says "ready" on standard output after its warm-up, and then prints
JSON: when each step ended (CLOCK_MONOTONIC, s), how many results differed from those of an
undisturbed step, and how many errors were caught.
"""

import hashlib
import json
import os
import sys
import time

NAME = sys.argv[1]
if NAME not in ("cupy", "numba"):
    import torch
    import torchvision

    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
WARM_UP = 20
CHECKPOINT_STEPS = 10
# Losses of the first steps are computed twice: what training gives does not depend on what
# happens beside it.
STEPS_OF_TRAINING = 40


def digest(tensor):
    return hashlib.sha256(tensor.detach().float().cpu().numpy().tobytes()).hexdigest()


def inference(name):
    torch.manual_seed(5)
    with torch.inference_mode():
        if name == "resnet50":
            model = torchvision.models.resnet50().eval().half().cuda()
            image = torch.randn(1, 3, 224, 224).half().cuda()
            step = lambda: digest(model(image))
        else:
            from transformers import BertConfig, BertModel

            model = BertModel(BertConfig()).eval().half().cuda()
            tokens = torch.randint(0, 30000, (1, 128)).cuda()
            step = lambda: digest(model(tokens).last_hidden_state)
        for _ in range(WARM_UP):
            expected = step()
        yield
        while True:
            yield step() == expected


def cupy_steps():
    import cupy

    random = cupy.random.default_rng(5)
    a, b = (random.standard_normal((512, 512), dtype=cupy.float32) for _ in range(2))
    module = cupy.RawModule(code="""
        __constant__ float factor[1];
        extern "C" __global__ void scale(const float* x, float* y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = x[i] * factor[0];
        }""")
    # A constant that the program writes once: it has to be the same at every later server.
    constant = cupy.ndarray((1,), cupy.float32, module.get_global("factor"))
    constant[...] = 3
    scale = module.get_function("scale")

    def step():
        product = a @ b
        scaled = cupy.empty_like(product)
        scale((1024,), (256,), (product, scaled, product.size))
        return hashlib.sha256(cupy.asnumpy(scaled.sum(axis=0)).tobytes()).hexdigest()

    for _ in range(WARM_UP):
        expected = step()
    yield
    while True:
        yield step() == expected


def numba_steps():
    import numpy
    from numba import cuda

    @cuda.jit
    def advance(values, by):
        i = cuda.grid(1)
        if i < values.size:
            values[i] = values[i] * 0.5 + by

    first = numpy.random.default_rng(5).standard_normal(1 << 16).astype(numpy.float32)

    def step():
        values = cuda.to_device(first)
        for by in range(4):
            advance[256, 256](values, numpy.float32(by))
        return hashlib.sha256(values.copy_to_host().tobytes()).hexdigest()

    for _ in range(WARM_UP):
        expected = step()
    yield
    while True:
        yield step() == expected


class Training:
    def __init__(self, name):
        torch.manual_seed(7)
        if name == "gpt2":
            from transformers import GPT2Config, GPT2LMHeadModel

            torch.use_deterministic_algorithms(True, warn_only=True)
            config = GPT2Config(n_layer=6, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
            self.model = GPT2LMHeadModel(config).cuda()
            tokens = torch.randint(0, config.vocab_size, (4, 128)).cuda()
            self.loss = lambda: self.model(input_ids=tokens, labels=tokens).loss
        else:
            self.model = torchvision.models.resnet18().cuda()
            images = torch.randn(8, 3, 224, 224).cuda()
            labels = torch.randint(0, 1000, (8,)).cuda()
            self.loss = lambda: torch.nn.functional.cross_entropy(self.model(images), labels)
        self.first = {k: v.cpu().clone() for k, v in self.model.state_dict().items()}
        self.begin()

    def begin(self):
        self.model.load_state_dict(self.first)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        self.number = 0
        self.save()

    def save(self):
        copy = lambda state: {k: v.cpu().clone() if torch.is_tensor(v) else v
                              for k, v in state.items()}
        momenta = [{k: v.cpu().clone() if torch.is_tensor(v) else v for k, v in s.items()}
                   for s in self.optimizer.state.values()]
        self.saved = (self.number, copy(self.model.state_dict()), momenta,
                      self.scaler.state_dict())

    def restore(self):
        self.number, model, momenta, scaler = self.saved
        self.model.load_state_dict(model)
        for state, old in zip(list(self.optimizer.state.values()), momenta):
            for key, value in old.items():
                state[key] = value.cuda() if torch.is_tensor(value) else value
        if not momenta:
            self.optimizer.state.clear()
        self.scaler.load_state_dict(scaler)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16):
            loss = self.loss()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        value = loss.item()
        self.number += 1
        if self.number % CHECKPOINT_STEPS == 0:
            self.save()
        return value


def training(name):
    work = Training(name)
    expected = [work.step() for _ in range(STEPS_OF_TRAINING)]
    work.begin()
    yield
    while True:
        if work.number >= STEPS_OF_TRAINING:
            work.begin()
        number = work.number
        try:
            yield work.step() == expected[number]
        except torch.AcceleratorError:
            # What was under way is lost; all else is there.
            work.restore()
            yield None


def main(name, stop):
    steps = {"train": training, "gpt2": training, "cupy": lambda _: cupy_steps(),
             "numba": lambda _: numba_steps()}.get(name, inference)(name)
    next(steps)
    print("ready", flush=True)
    ends, wrong, caught = [], 0, 0
    while not os.path.exists(stop):
        right = next(steps)
        ends.append(time.clock_gettime(time.CLOCK_MONOTONIC))
        wrong += right is False
        caught += right is None
    print(json.dumps({"name": name, "ends": ends, "wrong": wrong, "caught": caught}))


main(*sys.argv[1:])
