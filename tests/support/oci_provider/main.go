// A provider of Terraform and OpenTofu that stands in for oracle/oci in tests: its schema is generated from the facts
// of the bridged package (OCI_SCHEMA names the file), its cloud is a file (OCI_CLOUD names it), and it refuses what
// OCI refuses.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
)

func main() {
	facts, err := readFacts(os.Getenv("OCI_SCHEMA"))
	if err == nil {
		server := &provider{facts: facts, cloud: &cloud{file: os.Getenv("OCI_CLOUD")}}
		err = tf5server.Serve("registry.terraform.io/oracle/oci", func() tfprotov5.ProviderServer { return server })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
