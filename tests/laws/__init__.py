"""Laws: what every auditor, attack, mechanism and session must keep, each with a liar that it catches."""
