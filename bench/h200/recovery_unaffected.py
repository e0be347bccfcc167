#!/usr/bin/env python3
"""One program beside others that fault; recovery.py starts it.

    recovery_unaffected.py NAME STOP STEPS
    recovery_unaffected.py --fork

NAME is resnet50 or bert (inference, fp16, batch 1), stages (a transformer in two halves, each on a device of its
own), cupy (a product, a sum and a kernel of its own),
numba (a kernel in place, made anew each step), or train or gpt2 (ResNet-18 or GPT-2 with AMP, which
catch an error and go on from their last checkpoint, kept in the host's memory). It runs, waiting for each
step, until the file STOP exists. The file STEPS gets "ready" after the warm-up and then a line a step:
when it ended (CLOCK_MONOTONIC, s) and "right", "wrong" (its result differs from that of an undisturbed
step) or "caught" (an error).

With --fork it imports PyTorch once and becomes a program for each line of JSON on standard input:
name, stop, steps, said (the file of its standard error) and environment. It answers with the PID.
"""

import hashlib
import importlib
import json
import os
import signal
import sys
import time

PYTORCH = ("resnet50", "bert", "stages", "train", "gpt2")
WARM_UP = 5
CHECKPOINT_STEPS = 4
# Losses of the first steps are computed twice: what training gives does not depend on what
# happens beside it.
STEPS_OF_TRAINING = 12


def import_pytorch():
    global torch, torchvision
    torch = importlib.import_module("torch")
    torchvision = importlib.import_module("torchvision")
    importlib.import_module("transformers.models.bert.modeling_bert")
    importlib.import_module("transformers.models.gpt2.modeling_gpt2")
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


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


def stages(_):
    """What one device makes goes on at the other, and back to the host."""
    torch.manual_seed(5)
    with torch.inference_mode():
        half = lambda: torch.nn.Sequential(*[
            torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True) for _ in range(3)])
        first, second = half().eval().to("cuda:0"), half().eval().to("cuda:1")
        x = torch.randn(4, 128, 512, device="cuda:0")
        step = lambda: digest(second(first(x).to("cuda:1")))
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

    # Versions of Numba name functions that newer versions of NumPy have under another name.
    for old, new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
        if not hasattr(numpy, old):
            setattr(numpy, old, getattr(numpy, new))
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
            # Other attention of PyTorch adds gradients in any order.
            config = GPT2Config(n_layer=6, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                attn_implementation="eager")
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
        # Another one: where an error ends its step, it takes gradients for unscaled that are not.
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
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


def main(name, stop, path):
    if name in PYTORCH and "torch" not in globals():
        import_pytorch()
    steps = {"stages": stages, "train": training, "gpt2": training, "cupy": lambda _: cupy_steps(),
             "numba": lambda _: numba_steps()}.get(name, inference)(name)
    next(steps)
    words = {True: "right", False: "wrong", None: "caught"}
    with open(path, "a", buffering=1) as file:
        file.write("ready\n")
        while not os.path.exists(stop):
            right = next(steps)
            file.write(f"{time.clock_gettime(time.CLOCK_MONOTONIC)} {words[right]}\n")


def fork_on_demand():
    # Those that end leave nothing to wait for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import_pytorch()
    print("ready", flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        pid = os.fork()
        if pid > 0:
            print(pid, flush=True)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        said = os.open(wanted["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.environ.update(wanted["environment"])
        try:
            main(wanted["name"], wanted["stop"], wanted["steps"])
        except BaseException:
            importlib.import_module("traceback").print_exc()
            sys.stderr.flush()
        # Not by the interpreter's end: it is of no interest, and takes its time.
        os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "--fork":
        fork_on_demand()
    else:
        main(*sys.argv[1:])
