// Reads the Grafana dashboard by Grafana's own types, which refuse unknown fields and wrong values, and
// prints its queries, one a line.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func run(path string) error {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(heatmap.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var board, strict dashboard.Dashboard
	if err := json.Unmarshal(text, &board); err != nil {
		return err
	}
	for _, err := range []error{strict.UnmarshalJSONStrict(text), board.Validate()} {
		// The generated types may return an empty list of errors, and then leave the value empty.
		var list cog.BuildErrors
		if err != nil && (!errors.As(err, &list) || len(list) > 0) {
			return err
		}
	}
	seen := map[uint32]bool{}
	for _, one := range board.Panels {
		panel := one.Panel
		if panel == nil {
			continue
		}
		if panel.Id == nil || seen[*panel.Id] {
			return fmt.Errorf("panel %q: its id is missing or taken", *panel.Title)
		}
		seen[*panel.Id] = true
		for _, target := range panel.Targets {
			query, ok := target.(prometheus.Dataquery)
			if pointer, is := target.(*prometheus.Dataquery); is {
				query, ok = *pointer, true
			}
			if !ok {
				raw, _ := json.Marshal(target)
				return fmt.Errorf("panel %q: no query of Prometheus: %s", *panel.Title, raw)
			}
			fmt.Println(strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*").Replace(query.Expr))
		}
	}
	return nil
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
