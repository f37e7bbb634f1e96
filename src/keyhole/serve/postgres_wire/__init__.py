"""The PostgreSQL door: psql, drivers and notebooks ask in their own protocol; answers come from the gate alone.

Every message goes to a shadow, an empty PostgreSQL with the columns of the tables, so that catalogs, types, cursors and
transactions are real. A statement that names a protected table is asked at the gate, and its answer is put back through
the shadow as a statement of constants, which makes text or binary of every type.
"""

from __future__ import annotations

from keyhole.extras import require_folder

require_folder("serve/postgres_wire", "the PostgreSQL door")
