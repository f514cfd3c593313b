# SPDX-License-Identifier: Apache-2.0
"""All rows, in the order in which they run."""

import rows_net  # noqa: F401
import rows_in  # noqa: F401
import rows_form  # noqa: F401
import rows_file  # noqa: F401
import rows_fd  # noqa: F401
import rows_held  # noqa: F401
import rows_kernel  # noqa: F401
import rows_list  # noqa: F401
import rows_place  # noqa: F401
import rows_ring  # noqa: F401
import rows_task  # noqa: F401
import rows_guard  # noqa: F401
import rows_cache  # noqa: F401
import rows_pass  # noqa: F401
import rows_second  # noqa: F401
from table import ROWS  # noqa: F401
