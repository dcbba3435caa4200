# SPDX-License-Identifier: Apache-2.0
"""Pictures for people, as PNG files; matplotlib is imported when the first one is drawn."""
