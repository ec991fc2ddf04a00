"""Packers, collators, layouts, and the invariants that packed rows must hold."""
