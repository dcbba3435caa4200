# SPDX-License-Identifier: Apache-2.0
import numpy as np

from passl.data.sample_reader import SampleRandom


def test_sample_generator_depends_on_epoch_and_position_only():
    random, again = SampleRandom(4), SampleRandom(4)
    draws = {place: random.at(*place).random(3).tolist() for place in [(0, 0), (0, 1), (1, 0), (1, 1)]}
    assert len({tuple(values) for values in draws.values()}) == 4
    again.at(7, 7).integers(0, 5, dtype=np.uint32)  # leaves half a word in the generator's buffer
    assert {place: again.at(*place).random(3).tolist() for place in reversed(draws)} == draws


def test_neighbouring_samples_draw_independent_numbers():
    random = SampleRandom(0)
    values = np.array([random.at(0, position).random(9) for position in range(2000)])
    assert len(np.unique(values)) == values.size  # no stream runs into its neighbour's
    assert np.abs(values.mean(0) - 0.5).max() < 0.03
    assert abs(np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]) < 0.06
