"""Runs one command, and leaves nothing of it behind: the program of a process of its own.

    library -> guard -> second guard -> command, in a session of its own

Each guard adopts what its descendants leave behind (a subreaper: prctl(2), Linux 3.4), so that all that a command
starts stays among its descendants: in other sessions, daemonised, under other names. When what it runs has ended, or it
is called off, a guard asks its descendants to end, and kills those that do not within 0.2 s; it gives up after 2 s
more. It is called off by the end of its control socket, by SIGTERM, and by the death of its parent.

When the command kills or stops a guard, the other one ends everything; where that one does not, the library does, from
outside. What nobody ends: what runs as another user, what has put its environment away and then killed both guards, and
what is faster than whoever kills it.

Where the system has no subreapers, or no /proc, there is one guard, and it ends the command's process group.

It is run without the package, and imports little, so that it starts soon.
"""

from __future__ import annotations
