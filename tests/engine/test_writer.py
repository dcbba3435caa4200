# SPDX-License-Identifier: Apache-2.0
import numpy as np

from passl.engine.writer import Writer


class Images:
    """Images [3, 4, 4], but the second one [3, 4, 6]."""

    def __len__(self):
        return 3

    def sample(self, index, rng):
        return {"image": np.full([3, 4, 6 if index == 1 else 4], index, np.uint8)}


class Sheet:
    def add_image(self, name, image, step):
        self.image = image


def test_the_sheet_of_samples_leaves_out_images_of_another_size(tmp_path):
    writer = Writer(tmp_path, visualdl=False)
    writer._visual = Sheet()
    writer.samples(Images(), seed=0)
    assert writer._visual.image.shape == (8, 4, 3)
    assert writer._visual.image[::4, 0, 0].tolist() == [0, 2]
