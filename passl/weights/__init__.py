# SPDX-License-Identifier: Apache-2.0
"""Weight files: reading them without running code, moving them between libraries, saving them safely."""
