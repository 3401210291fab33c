// Package mcp lets the agent use tools, resources and prompts of MCP servers.
// It hides the protocol and its SDK, how servers are started and reached, what
// keeps them running, and everything that protects the agent from a server
// that is broken or hostile: what a server says is data, never more.
package mcp
