package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestUsageErrorsNameTheWholeCommand(t *testing.T) {
	root, group := &cobra.Command{Use: "sessionstore"}, &cobra.Command{Use: "memory"}
	rm := &cobra.Command{Use: "rm PATH"}
	root.AddCommand(group)
	group.AddCommand(rm)
	require.ErrorContains(t, argCount(1, 1)(rm, []string{"a", "b"}), "use: sessionstore memory rm PATH")
	require.ErrorContains(t, argCount(1, 1)(rm, nil), "use: sessionstore memory rm PATH")
}
