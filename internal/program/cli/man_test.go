package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Each command that people see has a page, and what roff would take for its own is escaped.
func TestMan(t *testing.T) {
	act := &cobra.Command{
		Use: "act ID", Short: "Act", Run: func(*cobra.Command, []string) {},
		Long:    "Acts with `x-y serve`.\n.It says so.\n\n  a  layout\n'quoted",
		Example: "  x act 1\n      --more",
	}
	act.Flags().String("admin-url", "", "`URL` of the hub (default: none)")
	act.Flags().IntP("parallel", "p", 8, "`N` at once")
	var wait, every Span
	act.Flags().Var(&wait, "wait", "`TIME` to wait; 0: none")
	act.Flags().Var(&every, "every", "every `TIME` (default: never)")
	hidden := &cobra.Command{Use: "secret", Hidden: true, Run: func(*cobra.Command, []string) {}}
	root := Root("x", "A program", "v1", Group("sub", "Look", act), hidden)
	root.Long = "X is a program.\n\nExit codes: 0 ok, 1 failure,\n2 wrong usage."
	dir := t.TempDir()
	if code := Execute(root, []string{"man", dir}, strings.NewReader(""), os.Stdout, os.Stderr); code != ExitOK {
		t.Fatalf("exit code %d", code)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if want := []string{"x-sub-act.1", "x-sub.1", "x-version.1", "x.1"}; !slices.Equal(files, want) {
		t.Fatalf("the pages are %v, not %v", files, want)
	}
	for name, parts := range map[string][]string{
		"x-sub-act.1": {
			".TH X\\-SUB\\-ACT 1 \"\" \"x v1\"", "\\fBx sub act\\fR ID", "Acts with \\fBx\\-y serve\\fR.\n\\&.It says so.\n.PP\n.nf\n.RS 4\na  layout\n.RE\n.fi\n\\&'quoted",
			"\\fB\\-\\-admin\\-url\\fR \\fIURL\\fR\nURL of the hub (default: none)\n", "\\fB\\-p\\fR, \\fB\\-\\-parallel\\fR \\fIN\\fR\nN at once (default 8)\n",
			"\\fITIME\\fR\nevery TIME (default: never)\n", "TIME to wait; 0: none\n",
			"x act 1\n    \\-\\-more\n", "\\fB2\\fR\nwrong usage\n", "\\fBx\\-sub\\fR(1),\n\\fBx\\fR(1)\n",
		},
		"x.1": {"X is a program.\n.SH COMMANDS", "\\fBx sub\\fR\nLook\n", "/etc/x/x.yaml"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q:\n%s", name, part, text)
			}
		}
	}
}
