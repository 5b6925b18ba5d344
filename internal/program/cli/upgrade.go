package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/admin"
)

// Upgrade is `rshub upgrade` with its subcommands.
func Upgrade(env Env) *cobra.Command {
	cmd := Group("upgrade", "Finish an upgrade, when you will not go back to the version before", upgradeStatus(env), upgradeFinish(env))
	cmd.Long = `A new version of rshub writes the store so that the version before it reads it too:
hubs of both versions work side by side, and you can go back without losing anything.
That ends when you finish the upgrade.`
	return cmd
}

const upgradePath = "/api/v1/upgrade"

func upgradeStatus(env Env) *cobra.Command {
	return new(clientFlags).onHub(env, jsonWhole, &cobra.Command{
		Use: "status", Short: "Show whether an upgrade is pending", Args: NoArguments,
		Example: "  rshub upgrade status",
	}, func(r *run, _ []string) error {
		return report(r, http.MethodGet, upgradePath, nil, func(u admin.Upgrade) error {
			say(r.cmd.OutOrStdout(), "%s", upgradeText(u))
			return nil
		})
	})
}

// upgradeText says what the state of an upgrade is, and what to do.
func upgradeText(u admin.Upgrade) string {
	var b strings.Builder
	switch u.State {
	case admin.UpgradeFinished:
		fmt.Fprintf(&b, "No upgrade is pending. The hubs write format %d, the newest that they know.\n", u.Format)
		return b.String()
	case admin.UpgradeBegun:
		fmt.Fprintf(&b, "The upgrade is being finished, or was interrupted. The hubs write format %d; older versions can't open the store any more.\n", u.Format)
	default:
		fmt.Fprintf(&b, "An upgrade is pending. The hubs write format %d, which the version before this one reads too. After the upgrade they write format %d.\n", u.Format, u.Newest)
	}
	if len(u.OlderHubs) > 0 {
		b.WriteString("Hubs of an older version are running; upgrade or stop them first:\n")
		for _, name := range u.OlderHubs {
			fmt.Fprintf(&b, "  %s\n", Line(name))
		}
		return b.String()
	}
	b.WriteString("If you will not go back to that version, run: rshub upgrade finish\n")
	return b.String()
}

func upgradeFinish(env Env) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "finish", Short: "Make the hubs write the newest format", Args: NoArguments,
		Long: `Makes all hubs on the store write its newest format. After that the version before
this one can't open the store any more, so this can't be undone. It is refused while a
hub of an older version is running. It takes as long as --owner-lease, because such a
hub may stay unnoticed for that time.`,
		Example: "  rshub upgrade finish",
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return new(clientFlags).onHub(env, jsonWhole, cmd, func(r *run, _ []string) error {
		var before admin.Upgrade
		if err := r.client.call(r.cmd.Context(), http.MethodGet, upgradePath, nil, nil, &before); err != nil {
			return err
		}
		if before.State != admin.UpgradeFinished {
			what := fmt.Sprintf("make the hubs write format %d. The version before this one can't open the store after that.", before.Newest)
			if err := confirm(r.cmd, r.env, yes, what); err != nil {
				return err
			}
		}
		patient := *r
		patient.client = r.client.patient()
		return report(&patient, http.MethodPost, upgradePath, nil, func(u admin.Upgrade) error {
			say(r.cmd.OutOrStdout(), "%s", upgradeText(u))
			return nil
		})
	})
}
