"""ResNet-50 and BERT-base: what they answer, and the losses of their first steps of training."""

import hashlib

import torch
import torchvision
from transformers import BertConfig, BertForSequenceClassification

torch.backends.cudnn.deterministic = True
torch.use_deterministic_algorithms(True, warn_only=True)

STEPS = 5


def digest(tensor):
    return hashlib.sha256(tensor.detach().float().cpu().numpy().tobytes()).hexdigest()[:16]


def train(name, model, loss_of):
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    for step in range(STEPS):
        loss = loss_of(model)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"{name} {step} {loss.item():.9f}")


def resnet50():
    torch.manual_seed(3)
    model = torchvision.models.resnet50().cuda()
    images, labels = torch.randn(8, 3, 224, 224).cuda(), torch.randint(0, 1000, (8,)).cuda()
    with torch.inference_mode():
        print("resnet50", digest(model.eval()(images)))
        print("resnet50 half", digest(model.half()(images[:1].half())))
    train("resnet50", model.float().train(),
          lambda model: torch.nn.functional.cross_entropy(model(images), labels))


def bert():
    torch.manual_seed(4)
    model = BertForSequenceClassification(BertConfig(hidden_dropout_prob=0.1)).cuda()
    tokens, labels = torch.randint(0, 30000, (8, 64)).cuda(), torch.randint(0, 2, (8,)).cuda()
    with torch.inference_mode():
        print("bert", digest(model.eval()(tokens).logits))
    train("bert", model.train(), lambda model: model(tokens, labels=labels).loss)


resnet50()
bert()
