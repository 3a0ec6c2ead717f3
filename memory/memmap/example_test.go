package memmap_test

import (
	"fmt"

	"github.com/sessionstore/sessionstore/memory/memmap"
)

func ExampleNew() {
	_, err := memmap.New("user-4711")
	fmt.Println(err)
	_, err = memmap.New("")
	fmt.Println(err)
	// Output:
	// <nil>
	// memmap: new "": invalid key: the scope is empty; name the tenant, user or project that the memory belongs to
}
