package mcp

func leaveChild() {}
