"""PyTorch's operations, eager: digests of their results."""

import hashlib

import torch

torch.manual_seed(0)
torch.backends.cudnn.deterministic = True


def show(name, *tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    print(f"{name:12} {sha.hexdigest()[:16]}")


a = torch.randn(1024, 1024).cuda()
b = torch.randn(1024, 1024).cuda()
show("elementwise", torch.sin(a) * b + a.abs().sqrt())
show("reductions", a.sum(), a.mean(0), a.max(1).values, a.std(1))
for kind in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    show(str(kind).split(".")[1], a.to(kind) @ b.to(kind))
show("softmax", torch.softmax(a, 1), torch.nn.functional.layer_norm(a, (1024,)))
x = torch.randn(8, 64, 56, 56).cuda()
w = torch.randn(128, 64, 3, 3).cuda()
show("convolution", torch.nn.functional.conv2d(x, w, padding=1))
show("fp16 conv", torch.nn.functional.conv2d(x.half(), w.half(), padding=1))
q = torch.randn(4, 8, 256, 64).cuda().half()
show("attention", torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True))
show("fft", torch.view_as_real(torch.fft.rfft2(a)))
show("sort", *torch.sort(a, 1), torch.topk(a, 10).values, torch.unique((a * 10).int()))
spd = a @ a.T + 1024 * torch.eye(1024).cuda()
show("cholesky", torch.linalg.cholesky(spd))
show("solve", torch.linalg.solve(spd, b))
show("index", a[torch.randperm(1024).cuda()], torch.cumsum(a, 1), torch.where(a > 0, a, b))
large = a * (a > 1.5)
# Sums in an order of its own each time.
print("sparse", torch.allclose(large.to_sparse_csr() @ b, large @ b, atol=1e-3))
show("random", torch.randn(1000, device="cuda"), torch.rand(1000, device="cuda"))
streams = [torch.cuda.Stream() for _ in range(4)]
parts = []
torch.cuda.synchronize()
for i, stream in enumerate(streams):
    with torch.cuda.stream(stream):
        parts.append((a * i) @ b)
torch.cuda.synchronize()
show("streams", *parts)
pinned = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
moved = pinned.cuda(non_blocking=True) * 2
back = torch.empty_like(pinned, pin_memory=True)
back.copy_(moved, non_blocking=True)
torch.cuda.synchronize()
show("pinned", back)
begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
begin.record()
c = a @ b
end.record()
end.synchronize()
print("events", 0 < begin.elapsed_time(end) < 1000)
