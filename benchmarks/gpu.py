"""Everything that only a GPU can tell, in one run of less than five minutes.

    python benchmarks/gpu.py [--only versions accuracy repeat interop times] [--out FILE.json]

Needs the ``cuda`` extra and torch with CUDA; CuPy, the ``entmax`` package and adasplash are used
where they are installed. Prints what it finds and ends with a non-zero status if anything but a
time is wrong. Times are medians of events; the floor is each operation's least traffic at the
bandwidth that a copy of the same size reaches in the same run.
"""

import argparse
import importlib
import json
import statistics
import sys
import time

import numpy as np

import sparsemap_np as sm

SECTIONS = ("versions", "accuracy", "repeat", "interop", "times")
LENGTHS = (1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4096, 32000, 100003)
SHAPES = ((4096, 32000), (65536, 64), (16384, 1024), (64, 1_000_000))
TEAMS = (20, 700, 5000)
"""Lengths that a thread, a warp and a block are given."""
REPEATED = ((512, 20), (512, 700), (64, 32000))
MAPS = (
    ("sparsemax", {}),
    ("entmax15", {}),
    ("entmax", {"alpha": 1.0}),
    ("entmax", {"alpha": 1.25}),
    ("entmax", {"alpha": 1.7}),
    ("entmax", {"alpha": 3.0}),
    ("entmax", {"alpha": 0.7}),
    ("entmax", {"alpha": float("inf")}),
    ("normmax_bisect", {"alpha": 2.0}),
    ("normmax_bisect", {"alpha": 5.0}),
    ("budget_bisect", {"budget": 1.0}),
)
DOUBLE = ("sparsemax", "entmax15", "normmax_bisect")
"""Tried in float64 too: compiling the others twice would take longer than all the rest."""

TARGETS = {"sparsemax": 1.3, "entmax15": 1.3, "alpha=1.25": 2.0, "vjp sparsemax": 1.3}
"""At the first shape, times the floor."""

SOFTMAX_TARGETS = {"sparsemax": 1.0, "entmax15": 1.0}
"""At the first shape, times torch.softmax."""

EPS = float(np.finfo("float32").eps)

faults = []


def check(good, what):
    if not good:
        faults.append(what)
        print("  WRONG:", what)


def optional(name):
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def label(name, kw):
    return " ".join([name, *(f"{k}={v:g}" for k, v in kw.items())])


def versions(torch):
    found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    found["cuda"] = torch.version.cuda
    for name in ("numpy", "numba", "numba_cuda", "cupy", "entmax", "adasplash"):
        module = optional(name)
        found[name] = getattr(module, "__version__", "?") if module else None
    for key, value in found.items():
        print(f"  {key}: {value}")
    return found


def rows(n, dtype, rng):
    """Normal rows of three widths, flat ones, ties, masked entries."""
    X = rng.normal(size=(7, n)) * np.array([0.01, 0.3, 1, 5, 1, 1, 1])[:, None]
    X[4] = 0.25
    X[5] = np.round(X[5])
    X[6, rng.random(n) < 0.5] = -np.inf
    X[6, 0] = 1.0
    return X.astype(dtype)


def poison(torch, like):
    """Leave the memory of the next result full of a number that is no answer."""
    torch.full_like(like, 777.0)


def accuracy(torch):
    """Every kernel against float64 on the processor, its output poisoned beforehand."""
    rng = np.random.default_rng(0)
    worst = mappings_and_vjps(torch, rng)
    for n in TEAMS:
        own_parameters(torch, rng, n)
        losses(torch, rng, n)
        halves(torch, rng, n)
    return worst


def near(got, expected, room, what):
    got = got.cpu().numpy().astype("f8")
    same = np.isnan(got) == np.isnan(expected)
    worst = np.nanmax(np.abs(got - expected) / room) if got.size else 0
    check((same & ~(np.abs(got - expected) > room)).all(), f"{what}: {worst:.3g} times the room")


def own_parameters(torch, rng, n):
    """An alpha or budget a row, from the host and from the device, and their gradients."""
    X = rows(n, "float32", rng)
    dP = rng.normal(size=X.shape).astype("float32")
    tX, tdP = torch.from_numpy(X).cuda(), torch.from_numpy(dP).cuda()
    for name, values in (
        ("entmax", [0.7, 1.0, 1.25, 1.5, 2.0, 3.0, np.inf]),
        ("normmax_bisect", [1.0, 1.5, 2.0, 3.0, 5.0, 1.2, np.inf]),
        ("budget_bisect", [0.0, 1.0, 2.0, 2.5, 0.5, 1.0, 1.0]),
    ):
        par = np.array(values)[:, None]
        exact = getattr(sm, name)(X.astype("f8"), par)
        for where, given in (("host", par), ("device", torch.from_numpy(par).cuda())):
            poison(torch, tX)
            P = getattr(sm, name)(tX, given)
            near(P, exact, EPS * (4 + 8 * exact), f"{name} n={n}, one parameter a row ({where})")
        P = P.cpu().numpy()
        vjp = getattr(sm, f"{name}_vjp")
        flag = "return_dbudget" if name == "budget_bisect" else "return_dalpha"
        kw = {} if name == "budget_bisect" else {"alpha": par}
        _, got = vjp(tdP, torch.from_numpy(P).cuda(), **kw, **{flag: True})
        _, expected = vjp(dP.astype("f8"), P.astype("f8"), **kw, **{flag: True})
        near(got, expected, 2e-3 * np.abs(expected) + 1e-4, f"{name} n={n}: {flag}")


def losses(torch, rng, n):
    X = rows(n, "float32", rng)[:6]  # the seventh row has a masked target
    y = np.arange(6) % n
    Y = sm.entmax(rng.normal(size=X.shape).astype("float32"), 1.5)
    kw = {"reduction": "mean", "return_grad": True}
    tX = torch.from_numpy(X).cuda()
    for target in (y, Y):
        given = torch.from_numpy(target).cuda()
        for name, more in (
            ("sparsemax_loss", {}),
            ("entmax15_loss", {}),
            ("entmax_loss", {"alpha": 1.25}),
            ("normmax_bisect_loss", {"alpha": 2.0}),
        ):
            poison(torch, tX)
            loss, grad = getattr(sm, name)(tX, given, **more, **kw)
            exact, slope = getattr(sm, name)(X.astype("f8"), target, **more, **kw)
            what = f"{name} n={n} {'labels' if target is y else 'distributions'}"
            near(loss, exact, 64 * EPS * (1 + abs(exact)), what)
            near(grad, slope, 4 * EPS, f"{what}: gradient")


def halves(torch, rng, n):
    """float16 is computed in float32 and rounded once."""
    X = rng.normal(size=(5, n)).astype("float16")
    got = sm.entmax15(torch.from_numpy(X).cuda())
    check(got.dtype == torch.float16, f"float16 n={n}: another dtype")
    exact = sm.entmax15(X.astype("f8"))
    near(got, exact, np.finfo("float16").eps * exact + 1e-7, f"float16 n={n}")


def mappings_and_vjps(torch, rng):
    worst = {}
    for dtype in ("float32", "float64"):
        eps = np.finfo(dtype).eps
        for n in LENGTHS:
            X = rows(n, dtype, rng)
            dP = rng.normal(size=X.shape).astype(dtype)
            tX, tdP = torch.from_numpy(X).cuda(), torch.from_numpy(dP).cuda()
            for name, kw in MAPS:
                if kw.get("budget", 0) > n or dtype == "float64" and name not in DOUBLE:
                    continue
                what = f"{label(name, kw)} {dtype} n={n}"
                exact = getattr(sm, name)(X.astype("f8"), **kw)
                out = torch.full_like(tX, 777.0)
                P = getattr(sm, name)(tX, out=out, **kw)
                check(P is out, f"{what}: out= is not returned")
                got = P.cpu().numpy().astype("f8")
                error = np.max(np.abs(got - exact) / (4 * eps + 8 * eps * exact))
                worst[name, dtype] = max(worst.get((name, dtype), 0.0), error)
                check(error <= 1, f"{what}: {error:.2f} times the promised error")
                total = np.abs(got.sum(1) - kw.get("budget", 1.0))
                support = np.maximum((got > 0).sum(1), 1)
                check((total <= 4 * eps * np.sqrt(support)).all(), f"{what}: sum")
                derivative = {k: v for k, v in kw.items() if k == "alpha"}
                vjp = getattr(sm, f"{name}_vjp")
                poison(torch, tX)
                dX = vjp(tdP, P, **derivative).cpu().numpy()
                reference = vjp(dP.astype("f8"), got, **derivative)
                size = np.abs(reference).max(1, keepdims=True) + np.abs(dP).max()
                close = np.abs(dX - reference) <= 256 * eps * size
                check(close[np.isfinite(reference)].all(), f"{what}: vjp")
    for (name, dtype), error in worst.items():
        print(f"  {name} {dtype}: at most {error:.2f} of the promised error")
    return {f"{name} {dtype}": error for (name, dtype), error in worst.items()}


def repeat(torch):
    """The same bits twenty times."""
    for shape in REPEATED:
        X = torch.randn(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
        y = torch.arange(shape[0], device="cuda") % shape[1]
        for name, kw in MAPS:
            first = getattr(sm, name)(X, **kw)
            same = all(torch.equal(first, getattr(sm, name)(X, **kw)) for _ in range(20))
            check(same, f"{label(name, kw)} {shape} differs between runs")
        loss = sm.entmax15_loss(X, y, reduction="mean")
        same = all(torch.equal(loss, sm.entmax15_loss(X, y, reduction="mean")) for _ in range(20))
        check(same, f"entmax15_loss {shape} differs between runs")
    print("  done")


def interop(torch):
    X = torch.randn(30, 70, device="cuda")
    expected = sm.sparsemax(X.cpu().numpy())
    out = torch.empty_like(X)
    check(sm.sparsemax(X, out=out).data_ptr() == out.data_ptr(), "torch: out is another memory")
    P = sm.sparsemax(X)
    check(P.device == X.device and P.dtype == X.dtype, "torch: device or dtype changed")
    check(np.allclose(P.cpu().numpy(), expected, atol=1e-6), "torch: values")
    turned = sm.sparsemax(X.T, axis=0).T.cpu().numpy()
    check(np.allclose(turned, expected, atol=1e-6), "torch: a transposed view")
    half = sm.sparsemax(X.half())
    check(half.dtype == torch.float16, "torch: float16")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        Z = torch.randn(SHAPES[0], device="cuda")
        Q = sm.entmax15(Z * 2.0)  # enqueued behind its input on the same stream, no waiting
    side.synchronize()
    check(torch.allclose(Q.sum(1), torch.ones(len(Z), device="cuda"), atol=1e-4), "torch: stream")
    start = time.perf_counter()
    for _ in range(20):
        sm.entmax15(Z)
    enqueued = time.perf_counter() - start
    torch.cuda.synchronize()
    finished = time.perf_counter() - start
    print(f"  20 calls enqueued in {enqueued * 1e3:.2f} ms, finished in {finished * 1e3:.2f} ms")
    check(enqueued < 0.5 * finished, "torch: a call waits for the device")
    cupy = optional("cupy")
    if cupy is None:
        print("  CuPy is not installed")
        return
    C = cupy.asarray(X)
    check(C.data.ptr == X.data_ptr(), "CuPy: no view of a tensor")
    out = cupy.empty_like(C)
    check(sm.sparsemax(C, out=out).data.ptr == out.data.ptr, "CuPy: out is another memory")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        P = sm.sparsemax(C)
        stream.synchronize()
    check(isinstance(P, cupy.ndarray), "CuPy: another kind came back")
    check(np.allclose(P.get(), expected, atol=1e-6), "CuPy: values")
    with sm.cuda_stream(side):
        P = sm.sparsemax(C)
    side.synchronize()
    check(np.allclose(P.get(), expected, atol=1e-6), "CuPy: cuda_stream")


def milliseconds(torch, call, seconds=0.25):
    """Median time of a call by events."""
    call()
    torch.cuda.synchronize()
    times = []
    stop = time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < stop and len(times) < 200):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def candidates(torch, X):
    """Name -> (call, arrays that it must at least move)."""
    out = torch.empty_like(X)
    dP = torch.randn_like(X)
    y = torch.arange(len(X), device="cuda") % X.shape[1]
    soft = torch.softmax(X, -1)
    P = {name: getattr(sm, name)(X) for name in ("sparsemax", "entmax15")}
    calls = {
        "copy": (lambda: out.copy_(X), 2),
        "torch.softmax": (lambda: torch.softmax(X, -1), 2),
        "sparsemax": (lambda: sm.sparsemax(X, out=out), 2),
        "entmax15": (lambda: sm.entmax15(X, out=out), 2),
        "alpha=1": (lambda: sm.entmax(X, 1.0, out=out), 2),
        "alpha=1.25": (lambda: sm.entmax(X, 1.25, out=out), 2),
        "alpha=3": (lambda: sm.entmax(X, 3.0, out=out), 2),
        "normmax 2": (lambda: sm.normmax_bisect(X, 2.0, out=out), 2),
        "budget d/10": (lambda: sm.budget_bisect(X, X.shape[1] // 10, out=out), 2),
        "vjp torch.softmax": (lambda: torch._softmax_backward_data(dP, soft, -1, X.dtype), 3),
        "vjp sparsemax": (lambda: sm.sparsemax_vjp(dP, P["sparsemax"]), 3),
        "vjp entmax15": (lambda: sm.entmax15_vjp(dP, P["entmax15"]), 3),
        "loss entmax15": (lambda: sm.entmax15_loss(X, y, reduction="mean", return_grad=True), 2),
    }
    peer = optional("entmax")
    if peer is not None:
        calls["peer sparsemax"] = (lambda: peer.sparsemax(X, -1), 2)
        calls["peer entmax15"] = (lambda: peer.entmax15(X, -1), 2)
        calls["peer alpha=1.25"] = (lambda: peer.entmax_bisect(X, 1.25, -1, 25), 2)
    splash = optional("adasplash")
    if splash is not None and hasattr(splash, "triton_entmax"):
        calls["adasplash alpha=1.5"] = (lambda: splash.triton_entmax(X, alpha=1.5), 2)
    return calls


def times(torch):
    table = {}
    for shape in SHAPES:
        X = torch.randn(shape, device="cuda")
        calls = candidates(torch, X)
        copy = milliseconds(torch, calls["copy"][0])
        softmax = milliseconds(torch, calls["torch.softmax"][0])
        per_array = copy / 2
        print(f"  {shape[0]} x {shape[1]} float32: a copy takes {copy:.3f} ms")
        for name, (call, arrays) in calls.items():
            try:
                took = milliseconds(torch, call)
            except Exception as error:  # a peer that cannot do this shape
                print(f"    {name:22s} {type(error).__name__}")
                continue
            table[f"{shape[0]}x{shape[1]} {name}"] = took
            line = f"    {name:22s} {took:9.3f} ms"
            for ratio, targets, unit in (
                (took / (arrays * per_array), TARGETS, "the floor"),
                (took / softmax, SOFTMAX_TARGETS, "torch.softmax"),
            ):
                target = targets.get(name) if shape == SHAPES[0] else None
                mark = "" if target is None else f" (target {target})"
                line += f" {ratio:6.2f} x {unit}{mark}"
            print(line)
        del X, calls
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--out", help="where to write the figures, as JSON")
    options = parser.parse_args()
    torch = optional("torch")
    if not sm.cuda_is_available() or torch is None or not torch.cuda.is_available():
        try:
            sm._device.launcher()
            reason = "torch with CUDA is not installed"
        except Exception as error:
            reason = str(error)
        sys.exit(f"benchmarks/gpu.py needs a GPU: {reason}")
    start = time.perf_counter()
    found = {}
    for section in SECTIONS:
        if section in options.only:
            print(section, flush=True)
            found[section] = globals()[section](torch)
    print(f"{time.perf_counter() - start:.0f} s, {len(faults)} faults")
    if options.out:
        with open(options.out, "w") as file:
            json.dump({**found, "faults": faults}, file, indent=1)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
