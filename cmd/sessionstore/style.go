package main

import "os"

// style colours text, or leaves it alone.
type style struct{ on bool }

// style is on when standard output is a terminal that wants colours.
func (a *app) style() style {
	return style{a.out.is && !a.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s style) code(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) dim(text string) string       { return s.code("2", text) }
func (s style) bold(text string) string      { return s.code("1", text) }
func (s style) user(text string) string      { return s.code("1;32", text) }
func (s style) assistant(text string) string { return s.code("1;34", text) }
func (s style) tool(text string) string      { return s.code("36", text) }
func (s style) bad(text string) string       { return s.code("31", text) }
func (s style) mark(text string) string      { return s.code("35", text) }
