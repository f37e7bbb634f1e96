"""Deciding before each answer."""
