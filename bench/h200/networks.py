#!/usr/bin/env python3
"""One process of a group that runs networks of PyTorch; run.py starts it.

    networks.py NAMES SECONDS DIRECTORY COUNT

For each of NAMES (resnet50, bert, train), the COUNT processes warm up, wait for each other in
DIRECTORY, and go on for SECONDS, each waiting for every step before the next one. Prints JSON:
for each name the steps a second, the time of each step in ms, and a digest of what came out.

A name may be MEETING/NETWORK: then the processes meet under MEETING, each with a network of its own.

Inference is fp16 with batch 1; resnet50 is torchvision's, bert the BERT-base of transformers with
128 tokens. train is ResNet-18, fp32, batch 8, SGD; its digest is
that of the losses of its first steps. The others (MIX) are torchvision's and the GPT-2 of transformers with 128 tokens, made on
the device. Weights and inputs are the same in every process.
"""

import hashlib
import json
import os
import sys
import time

import torch
import torchvision

# Eight networks beside ResNet-50 and BERT, from short kernels to long ones.
MIX = ["mobilenet_v3_large", "efficientnet_b0", "densenet121", "vgg16", "vit_b_16", "swin_t", "convnext_tiny", "gpt2"]
WARM_UP = 20
LOSSES = 5


def resnet50():
    model = torchvision.models.resnet50().eval().half().cuda()
    image = torch.randn(1, 3, 224, 224).half().cuda()
    return lambda: model(image)


def bert():
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig()).eval().half().cuda()
    tokens = torch.randint(0, 30000, (1, 128)).cuda()
    return lambda: model(tokens).last_hidden_state


def train():
    model = torchvision.models.resnet18().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    images = torch.randn(8, 3, 224, 224).cuda()
    labels = torch.randint(0, 1000, (8,)).cuda()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def data_parallel(rank):
    """A step of ResNet-18's training over all ranks, which have met; it returns the loss."""
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(torchvision.models.resnet18().cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(32, 3, 224, 224, generator=generator).cuda()
    y = torch.randint(0, 1000, (32,), generator=generator).cuda()

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def of_mix(name):
    with torch.device("cuda"):
        if name == "gpt2":
            from transformers import GPT2Config, GPT2Model

            model = GPT2Model(GPT2Config()).eval().half()
            tokens = torch.randint(0, 30000, (1, 128))
            return lambda: model(tokens).last_hidden_state
        model = getattr(torchvision.models, name)().eval().half()
        # Some begin with weights of 0, and with them every result would be 0.
        for weights in model.parameters():
            if not weights.any():
                torch.nn.init.normal_(weights, std=0.02)
        image = torch.randn(1, 3, 224, 224).half()
    return lambda: model(image)


def digest(results):
    sha = hashlib.sha256()
    for result in results:
        sha.update(result.float().cpu().numpy().tobytes())
    return sha.hexdigest()[:12]


def wait_for_all(directory, name, count):
    """Waits until all processes have come here."""
    open(os.path.join(directory, f"{name}.{os.getpid()}"), "w").close()
    while sum(entry.startswith(name + ".") for entry in os.listdir(directory)) < count:
        time.sleep(0.002)


def measure(name, seconds, directory, count):
    torch.manual_seed(0)
    meeting, _, network = name.rpartition("/")
    meeting = meeting or name
    step = of_mix(network) if network in MIX else {"resnet50": resnet50, "bert": bert, "train": train}[network]()
    with torch.enable_grad() if name == "train" else torch.inference_mode():
        first = [step() for _ in range(WARM_UP)]
        result = digest(first[:LOSSES] if name == "train" else first[-1:])
        torch.cuda.synchronize()
        wait_for_all(directory, meeting, count)
        times = []
        start = now = time.perf_counter()
        while now - start < seconds:
            step()
            torch.cuda.synchronize()
            before, now = now, time.perf_counter()
            times.append((now - before) * 1e3)
    return {"per_s": len(times) / (now - start), "ms": times, "digest": result}


def main():
    names, seconds, directory, count = sys.argv[1:5]
    # So that ResNet-18 learns the same every time, on the driver alone as well.
    torch.backends.cudnn.deterministic = True
    results = {}
    for name in names.split(","):
        results[name] = measure(name, float(seconds), directory, int(count))
        # Those that end first wait, so that no process warms up while others are measured.
        wait_for_all(directory, (name.rpartition("/")[0] or name) + "-end", int(count))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
