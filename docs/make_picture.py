"""Draw docs/mappings.png, the picture of the README: `python docs/make_picture.py`."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from sparsemap_np import entmax

MAPPINGS = [
    ("softmax", 1.0, "#8c8c8c"),
    ("1.5-entmax", 1.5, "#0072b2"),
    ("sparsemax", 2.0, "#d55e00"),
]


def main():
    """Write the picture next to this file."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 2.9), layout="constrained")

    t = np.linspace(-3, 3, 601)
    two_scores = np.stack([t, np.zeros_like(t)], axis=-1)
    for name, alpha, colour in MAPPINGS:
        left.plot(t, entmax(two_scores, alpha=alpha)[:, 0], color=colour, label=name)
    left.set(xlabel="t", ylabel="first probability", title="two classes with scores [t, 0]")
    left.set_yticks([0, 0.5, 1])
    left.legend(frameon=False)

    scores = np.array([2.0, 1.7, 1.2, 0.5, 0.3, 0.0, -0.4, -0.8])
    place = np.arange(len(scores))
    for shift, (_, alpha, colour) in zip((-0.28, 0, 0.28), MAPPINGS, strict=True):
        p = entmax(scores, alpha=alpha)
        right.bar(place + shift, p, width=0.26, color=colour)
        # A zero leaves no bar: a ring on the axis says that it is a zero and not a missing value.
        zeros = place[p == 0] + shift
        (rings,) = right.plot(zeros, 0 * zeros, "o", ms=3, mfc="white", mec=colour, clip_on=False)
        # Unclipped artists would push the layout apart.
        rings.set_in_layout(False)
    right.set(xlabel="score", ylabel="probability", title="eight classes (rings: exactly 0)")
    right.set_xticks(place, [f"{s:g}" for s in scores])

    figure.savefig(Path(__file__).with_name("mappings.png"), dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
