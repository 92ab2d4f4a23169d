"""A training loop of your own: a model is an ordinary torch module, and its state continues a sequence.

    python examples/own_training_loop.py
    python examples/own_training_loop.py --architecture lstm --steps 1000

The network sees a wave and predicts its next value. It is trained with `torch.optim` on short pieces, then runs over a
long wave one value at a time, as it would on data that arrive while it runs.
"""

import argparse
import math

import torch
from torch import Tensor

from rnnlab import Model, architecture


def waves(num_sequences: int, num_steps: int, generator: torch.Generator) -> Tensor:
    """Sines of random phase and period, [B, T, 1]."""
    phases = 2 * math.pi * torch.rand(num_sequences, 1, generator=generator)
    periods = 8 + 8 * torch.rand(num_sequences, 1, generator=generator)
    return torch.sin(phases + 2 * math.pi * torch.arange(num_steps) / periods)[..., None]


def main() -> None:
    """Train, then stream."""
    parser = argparse.ArgumentParser(description="Train a model in an ordinary torch loop, then stream with its state.")
    parser.add_argument("--architecture", default="td:gru", help="a name of the catalogue, with its cell")
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    given = parser.parse_args()
    generator = torch.Generator().manual_seed(0)

    network = architecture(given.architecture, input_size=1, output_size=1, units=given.units)
    model = Model(network, seed=0)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    print(f"{network}\n")

    for step in range(1, given.steps + 1):
        batch = waves(given.batch, 41, generator)
        predictions, _ = model(batch[:, :-1])  # [B, T, 1]; without a state, sequences begin with the learned one
        loss = torch.nn.functional.mse_loss(predictions, batch[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step == 1 or step % max(1, given.steps // 5) == 0:
            print(f"step {step:5}   loss {loss.item():.4f}")

    # Streaming: each call gives the state that the next one continues with. One value at a time or all at once, the
    # predictions are the same. For truncated backpropagation, `state.detach()` cuts the gradient between two calls.
    wave = waves(1, 200, generator)
    with torch.no_grad():
        at_once, _ = model(wave)
        state, pieces = None, []
        for now in range(wave.shape[1]):
            prediction, state = model(wave[:, now : now + 1], state)
            pieces.append(prediction)
    streamed = torch.cat(pieces, dim=1)
    difference = (streamed - at_once).abs().max().item()
    error = torch.nn.functional.mse_loss(streamed[:, 40:-1], wave[:, 41:]).item()
    print(f"\nstreamed {wave.shape[1]} values: error {error:.4f}, largest difference to one call {difference:.0e}")


if __name__ == "__main__":
    main()
