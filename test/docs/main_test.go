package docs

import (
	"fmt"
	"os"
	"testing"
)

const module = "github.com/rshub/rshub"

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
