"""`keyhole serve`: the doors of a server. One gate decides; HTTP, MCP and the PostgreSQL wire are ways to reach it.

This folder belongs to the extra `serve`: its modules import the packages of that extra directly, and this file is the
one place that asks whether they are installed.
"""

from keyhole.extras import require_folder

require_folder("serve", "keyhole serve")
