package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of this program.

JSON fields: version, go, and where the build knows it, revision.`,
		Example: `  sessionstore version
  sessionstore version --json`,
		Args:              argCount(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       map[string]string{usesNoStore: "it only prints the version"},
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.json {
				return a.printJSON(v)
			}
			a.printf("sessionstore %s (%s", v.Version, v.Go)
			if v.Revision != "" {
				a.printf(", %s", v.Revision)
			}
			a.printf(")\n")
			return nil
		},
	}
}

type versionJSON struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Revision string `json:"revision,omitempty"`
}

func buildVersion() versionJSON {
	v := versionJSON{Version: "(devel)", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}
