package mcp

func leaveChild(bool) {}
