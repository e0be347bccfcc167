"""A small GPT and a convolutional network learn; data comes through pinned memory and workers."""

import torch
from torch import nn

torch.backends.cudnn.deterministic = True
torch.use_deterministic_algorithms(True, warn_only=True)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, tokens=256, width=128, length=64):
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(4)])
        self.head = nn.Linear(width, tokens)

    def forward(self, text):
        places = torch.arange(text.shape[1], device=text.device)
        return self.head(self.blocks(self.token(text) + self.place(places)))


def gpt():
    torch.manual_seed(1)
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    text = torch.randint(0, 256, (16, 65)).cuda()
    for step in range(10):
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(text[:, :-1])
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"gpt {step} {loss.item():.9f}")


def convolutions():
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    data = torch.utils.data.TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))
    loader = torch.utils.data.DataLoader(data, 64, num_workers=2, pin_memory=True)
    for epoch in range(2):
        total = 0.0
        for images, labels in loader:
            images = images.cuda(non_blocking=True)
            labels = labels.cuda(non_blocking=True)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"convolutions {epoch} {total:.9f}")


if __name__ == "__main__":
    gpt()
    convolutions()
