package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionstore/sessionstore/memory"
	"github.com/sessionstore/sessionstore/memory/mempg"
)

const memoryLong = `Work with the files that agents keep through the memory tool.

A memory belongs to a scope: a tenant, a user or a project, as the host of the
agent names it. Give it with --scope. The store is a URL as for sessions; there
is no default:

  file:DIR        a directory with one directory for each scope
  postgres://…    also schema=NAME and table_prefix=NAME; see "memory migrate"
  redis://…       and the other kinds of Redis; also prefix=TEXT
  s3://BUCKET/PREFIX?region=…&endpoint=…&path_style=true

A PATH is that of the tool, such as /memories/notes.md, or what stands behind
/memories/.`

func newMemory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "List, read, write and delete the files of the memory tool",
		Long:  memoryLong,
		Example: `  sessionstore memory ls -s file:memories --scope user-4711
  sessionstore memory cat -s file:memories --scope user-4711 notes.md`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	scope := ""
	cmd.PersistentFlags().StringVar(&scope, "scope", "", "whose memory it is: the `NAME` of a tenant, user or project")
	for _, sub := range []*cobra.Command{
		newMemoryLs(a, &scope), newMemoryCat(a, &scope), newMemoryPut(a, &scope), newMemoryRm(a, &scope), newMemoryExpire(a, &scope), newMemoryMigrate(a),
	} {
		cmd.AddCommand(unmasked(sub))
	}
	return cmd
}

// withMemory runs a command on the memory that the flags name.
func (a *app) withMemory(ctx context.Context, scope string, mode mode, f func(m *memoryHandle) error) (err error) {
	if scope == "" {
		return usagef("whose memory? give --scope NAME")
	}
	if err := memory.CheckScope(scope); err != nil {
		return usagef("%v", err)
	}
	m, err := a.openMemory(ctx, scope, mode)
	if err != nil {
		return err
	}
	defer func() {
		if e := m.close(); err == nil {
			err = e
		}
	}()
	err = f(m)
	switch {
	case errors.Is(err, mempg.ErrNotMigrated):
		return errors.New("the tables are missing or too old; run \"sessionstore memory migrate\" on this store")
	case errors.Is(err, memory.ErrNotFound):
		return notFoundf("%v", err)
	case errors.Is(err, memory.ErrInvalidPath):
		return usagef("%v", err)
	}
	return err
}

// memoryPath takes what a person writes for the path of the tool.
func memoryPath(arg string) string {
	if arg == memory.Root || strings.HasPrefix(arg, "/") {
		return arg
	}
	return memory.Root + "/" + arg
}

func newMemoryLs(a *app, scope *string) *cobra.Command {
	return &cobra.Command{
		Use:   "ls [PATH]",
		Short: "List the files of a memory, with sizes and times of use",
		Long: `List all files of a memory, or those in a directory of it. The time is when a
file was last written or read, to within an hour.

JSON fields: path, size (bytes), used.`,
		Example: `  sessionstore memory ls -s file:memories --scope user-4711`,
		Args:    argCount(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := memory.Root
			if len(args) > 0 {
				path = memoryPath(args[0])
			}
			return a.withMemory(cmd.Context(), *scope, reading, func(m *memoryHandle) error { return a.memoryLs(cmd.Context(), m, path) })
		},
	}
}

func (a *app) memoryLs(ctx context.Context, m *memoryHandle, path string) error {
	list, err := m.store.List(ctx, path)
	if err != nil {
		return err
	}
	if len(list) == 0 && path != memory.Root {
		return notFoundf("no file or directory %s in this memory", path)
	}
	for _, f := range list {
		if a.json {
			err := a.printJSON(struct {
				Path string    `json:"path"`
				Size int64     `json:"size"`
				Used time.Time `json:"used"`
			}{f.Path, f.Size, f.Used.UTC()})
			if err != nil {
				return err
			}
			continue
		}
		a.printf("%s  %10s  %s\n", f.Used.Local().Format(time.DateTime), number(f.Size), oneLine(f.Path))
	}
	return nil
}

func newMemoryCat(a *app, scope *string) *cobra.Command {
	return &cobra.Command{
		Use:     "cat PATH…",
		Short:   "Print files of a memory, byte for byte",
		Long:    `Print files of a memory one after the other, byte for byte.`,
		Example: `  sessionstore memory cat -s file:memories --scope user-4711 notes.md`,
		Args:    argCount(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withMemory(cmd.Context(), *scope, reading, func(m *memoryHandle) error {
				for _, arg := range args {
					f, err := m.store.Read(cmd.Context(), memoryPath(arg), 0)
					if err != nil {
						return err
					}
					if _, err := a.stdout.Write(f.Data); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func newMemoryPut(a *app, scope *string) *cobra.Command {
	isNew := false
	cmd := &cobra.Command{
		Use:   "put PATH [FILE]",
		Short: "Write a file of a memory, from a file or standard input",
		Long: `Write a file of a memory, byte for byte, from FILE or from standard input. A
file that exists is replaced, unless --new is given. It has at most 4 MiB; the
limits that a host sets for its model do not apply.

JSON fields: path, size (bytes).`,
		Example: `  sessionstore memory put -s file:memories --scope user-4711 house-rules.md rules.md
  date | sessionstore memory put -s file:memories --scope user-4711 today.txt`,
		Args: argCount(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from := "-"
			if len(args) == 2 {
				from = args[1]
			}
			data, err := a.memoryInput(from)
			if err != nil {
				return err
			}
			return a.withMemory(cmd.Context(), *scope, writing, func(m *memoryHandle) error {
				return a.memoryPut(cmd.Context(), m, memoryPath(args[0]), data, isNew)
			})
		},
	}
	cmd.Flags().BoolVar(&isNew, "new", false, "fail if there is such a file already")
	return cmd
}

// memoryInput reads what is put into a memory, which may be an endless device.
func (a *app) memoryInput(from string) ([]byte, error) {
	in := a.stdin
	if from == "-" {
		from = "standard input"
	} else {
		f, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, memory.DefaultMaxFileBytes+1))
	if err == nil && len(data) > memory.DefaultMaxFileBytes {
		err = usagef("%s has more than %s bytes, the limit of a file of a memory", from, number(memory.DefaultMaxFileBytes))
	}
	return data, err
}

// putTries is how often others may change the file at the same moment.
const putTries = 20

func (a *app) memoryPut(ctx context.Context, m *memoryHandle, path string, data []byte, isNew bool) error {
	for try := 1; ; try++ {
		err := m.store.Write(ctx, path, data, "", memory.Limits{})
		if errors.Is(err, memory.ErrExists) && !isNew {
			f, readErr := m.store.Read(ctx, path, 0)
			if readErr == nil {
				err = m.store.Write(ctx, path, data, f.Version, memory.Limits{})
			} else if !errors.Is(readErr, memory.ErrNotFound) {
				return readErr
			}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, memory.ErrConflict) || try == putTries {
			return err
		}
	}
	if a.json {
		return a.printJSON(struct {
			Path string `json:"path"`
			Size int    `json:"size"`
		}{path, len(data)})
	}
	a.printf("wrote %s (%s)\n", oneLine(path), plural(len(data), "byte"))
	return nil
}

func newMemoryRm(a *app, scope *string) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "rm PATH",
		Short: "Delete a file of a memory, or a directory with all in it",
		Long: `Delete a file of a memory, or a directory with all in it. /memories stands for
all files.

It asks; without a terminal it needs --yes.

JSON fields: path, files (deleted).`,
		Example: `  sessionstore memory rm -s file:memories --scope user-4711 old-notes --yes`,
		Args:    argCount(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withMemory(cmd.Context(), *scope, writing, func(m *memoryHandle) error {
				return a.memoryRm(cmd.Context(), m, memoryPath(args[0]), yes)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) memoryRm(ctx context.Context, m *memoryHandle, path string, yes bool) error {
	list, err := m.store.List(ctx, path)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return notFoundf("no file or directory %s in this memory", path)
	}
	if !yes {
		if err := a.askMemory(ctx, m, plural(len(list), "file")+" at "+path+" of scope "+m.scope); err != nil {
			return err
		}
	}
	paths := []string{path}
	if path == memory.Root { // which cannot be deleted itself
		paths = paths[:0]
		for _, f := range list {
			paths = append(paths, f.Path)
		}
	}
	for _, p := range paths {
		if err := m.store.Delete(ctx, p); err != nil && (len(paths) == 1 || !errors.Is(err, memory.ErrNotFound)) {
			return err
		}
	}
	if a.json {
		return a.printJSON(struct {
			Path  string `json:"path"`
			Files int    `json:"files"`
		}{path, len(list)})
	}
	a.printf("deleted %s\n", plural(len(list), "file"))
	return nil
}

// askMemory lets the person at the terminal decide.
func (a *app) askMemory(ctx context.Context, m *memoryHandle, what string) error {
	if !a.canAsk() {
		return usagef("this would delete %s from %s; say --yes, or look first with \"memory ls\"", what, m.name)
	}
	return a.ask(ctx, &handle{name: m.name}, what)
}

func newMemoryExpire(a *app, scope *string) *cobra.Command {
	unused, yes := "", false
	cmd := &cobra.Command{
		Use:   "expire --unused-for AGE",
		Short: "Delete the files of a memory that nobody has used for a while",
		Long: `Delete the files of a memory that were neither written nor read for AGE (a
number and s, m, h, d or w; at least 1h, which is how exactly use is known).

It asks; without a terminal it needs --yes.

JSON field: path, a line for each deleted file.`,
		Example: `  sessionstore memory expire -s redis://localhost:6379 --scope user-4711 --unused-for 90d --yes`,
		Args:    argCount(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if unused == "" {
				return usagef("unused for how long? give --unused-for AGE, such as 90d")
			}
			age, err := parseAge(unused)
			if err != nil {
				return err
			}
			if age < memory.UseInterval {
				return usagef("--unused-for %s: at least 1h, which is how exactly use is known", unused)
			}
			return a.withMemory(cmd.Context(), *scope, writing, func(m *memoryHandle) error {
				return a.memoryExpire(cmd.Context(), m, age, unused, yes)
			})
		},
	}
	cmd.Flags().StringVar(&unused, "unused-for", "", "delete files not written or read for this `AGE`, such as 90d")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) memoryExpire(ctx context.Context, m *memoryHandle, age time.Duration, unused string, yes bool) error {
	if !yes {
		if err := a.askMemory(ctx, m, "all files of scope "+m.scope+" not used for "+unused); err != nil {
			return err
		}
	}
	gone, err := memory.Expire(ctx, m.store, age)
	for _, path := range gone {
		if a.json {
			if err := a.printJSON(map[string]string{"path": path}); err != nil {
				return err
			}
			continue
		}
		a.printf("%s\n", oneLine(path))
	}
	if err == nil && !a.json {
		a.printf("deleted %s\n", plural(len(gone), "file"))
	}
	return err
}

func newMemoryMigrate(a *app) *cobra.Command {
	printSQL := false
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables for memories in a database",
		Long: `Make the tables in which PostgreSQL keeps memories, of all scopes. It does
nothing where nothing is to be done. With --print the SQL is printed instead;
the server is not contacted.

JSON field: migrated (true).`,
		Example: `  sessionstore memory migrate -s postgres://me@localhost/agents`,
		Args:    argCount(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// For reading, so that a directory that needs no tables is not made.
			return a.withMemory(cmd.Context(), "migrate", reading, func(m *memoryHandle) error {
				s, ok := m.store.(migrator)
				if !ok {
					kind, _, _ := cutScheme(m.name)
					return usagef("%s has no tables: memories in %s stores need no migration", m.name, kind)
				}
				return a.runMigration(cmd.Context(), s, m.name, printSQL)
			})
		},
	}
	cmd.Flags().BoolVar(&printSQL, "print", false, "print the SQL, change nothing")
	return cmd
}

// runMigration makes tables, or prints how.
func (a *app) runMigration(ctx context.Context, s migrator, name string, printSQL bool) error {
	if printSQL {
		a.printf("%s", s.Schema())
		return nil
	}
	if err := s.Migrate(ctx); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			Migrated bool `json:"migrated"`
		}{true})
	}
	a.printf("the tables of %s are up to date\n", oneLine(name))
	return nil
}
