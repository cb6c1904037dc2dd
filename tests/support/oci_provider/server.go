package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
)

// provider answers what resources and data sources need; the rest of the protocol is nobody's here, and panics.
type provider struct {
	tfprotov5.ProviderServer
	facts *facts
	cloud *cloud
}

func problem(err error) []*tfprotov5.Diagnostic {
	if err == nil {
		return nil
	}
	return []*tfprotov5.Diagnostic{{
		Severity: tfprotov5.DiagnosticSeverityError, Summary: err.Error(),
	}}
}

func (provider *provider) GetMetadata(
	context.Context, *tfprotov5.GetMetadataRequest,
) (*tfprotov5.GetMetadataResponse, error) {
	found := &tfprotov5.GetMetadataResponse{ServerCapabilities: &tfprotov5.ServerCapabilities{}}
	for name := range provider.facts.schemas("") {
		found.Resources = append(found.Resources, tfprotov5.ResourceMetadata{TypeName: name})
	}
	for name := range provider.facts.schemas("data.") {
		found.DataSources = append(found.DataSources, tfprotov5.DataSourceMetadata{TypeName: name})
	}
	return found, nil
}

func (provider *provider) GetProviderSchema(
	context.Context, *tfprotov5.GetProviderSchemaRequest,
) (*tfprotov5.GetProviderSchemaResponse, error) {
	return &tfprotov5.GetProviderSchemaResponse{
		ServerCapabilities: &tfprotov5.ServerCapabilities{},
		Provider:           &tfprotov5.Schema{Block: blockOf(provider.facts.Provider, false)},
		ResourceSchemas:    provider.facts.schemas(""),
		DataSourceSchemas:  provider.facts.schemas("data."),
	}, nil
}

func (provider *provider) GetResourceIdentitySchemas(
	context.Context, *tfprotov5.GetResourceIdentitySchemasRequest,
) (*tfprotov5.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov5.GetResourceIdentitySchemasResponse{}, nil
}

func (provider *provider) PrepareProviderConfig(
	_ context.Context, asked *tfprotov5.PrepareProviderConfigRequest,
) (*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: asked.Config}, nil
}

func (provider *provider) ConfigureProvider(
	context.Context, *tfprotov5.ConfigureProviderRequest,
) (*tfprotov5.ConfigureProviderResponse, error) {
	return &tfprotov5.ConfigureProviderResponse{}, nil
}

func (provider *provider) StopProvider(
	context.Context, *tfprotov5.StopProviderRequest,
) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}

func (provider *provider) ValidateResourceTypeConfig(
	context.Context, *tfprotov5.ValidateResourceTypeConfigRequest,
) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	return &tfprotov5.ValidateResourceTypeConfigResponse{}, nil
}

func (provider *provider) ValidateDataSourceConfig(
	context.Context, *tfprotov5.ValidateDataSourceConfigRequest,
) (*tfprotov5.ValidateDataSourceConfigResponse, error) {
	return &tfprotov5.ValidateDataSourceConfigResponse{}, nil
}

func (provider *provider) UpgradeResourceState(
	_ context.Context, asked *tfprotov5.UpgradeResourceStateRequest,
) (*tfprotov5.UpgradeResourceStateResponse, error) {
	kind := objectOf(provider.facts.all(asked.TypeName))
	value, err := asked.RawState.Unmarshal(kind)
	if err != nil {
		return &tfprotov5.UpgradeResourceStateResponse{Diagnostics: problem(err)}, nil
	}
	made, err := tfprotov5.NewDynamicValue(kind, value)
	return &tfprotov5.UpgradeResourceStateResponse{UpgradedState: &made, Diagnostics: problem(err)}, nil
}

func (provider *provider) ReadResource(
	_ context.Context, asked *tfprotov5.ReadResourceRequest,
) (*tfprotov5.ReadResourceResponse, error) {
	values, err := provider.read(asked.TypeName, asked.CurrentState)
	if err != nil || values == nil {
		return &tfprotov5.ReadResourceResponse{NewState: asked.CurrentState, Diagnostics: problem(err)}, nil
	}
	there, err := provider.cloud.get(values["id"].(string))
	if err != nil {
		return &tfprotov5.ReadResourceResponse{Diagnostics: problem(err)}, nil
	}
	state, err := provider.write(asked.TypeName, there)
	return &tfprotov5.ReadResourceResponse{NewState: state, Diagnostics: problem(err)}, nil
}

func (provider *provider) PlanResourceChange(
	_ context.Context, asked *tfprotov5.PlanResourceChangeRequest,
) (*tfprotov5.PlanResourceChangeResponse, error) {
	answer := &tfprotov5.PlanResourceChangeResponse{}
	prior, err := provider.read(asked.TypeName, asked.PriorState)
	if err != nil {
		answer.Diagnostics = problem(err)
		return answer, nil
	}
	planned, err := provider.read(asked.TypeName, asked.ProposedNewState)
	if err != nil || planned == nil {
		answer.PlannedState, answer.Diagnostics = asked.ProposedNewState, problem(err)
		return answer, nil
	}
	if prior == nil {
		provider.setUnknown(asked.TypeName, planned)
	} else {
		answer.RequiresReplace = anew(provider.facts.Arguments[asked.TypeName], prior, planned)
	}
	answer.PlannedState, err = provider.write(asked.TypeName, planned)
	answer.Diagnostics = problem(err)
	return answer, nil
}

// setUnknown leaves to the cloud what nobody has given, at the top level.
func (provider *provider) setUnknown(name string, planned map[string]any) {
	for key, each := range provider.facts.all(name) {
		_, isArgument := provider.facts.Arguments[name][key]
		if planned[key] == nil && !(isArgument && each.Type == "block") {
			planned[key] = unknown{}
		}
	}
}

func (provider *provider) ApplyResourceChange(
	_ context.Context, asked *tfprotov5.ApplyResourceChangeRequest,
) (*tfprotov5.ApplyResourceChangeResponse, error) {
	answer := &tfprotov5.ApplyResourceChangeResponse{NewState: asked.PriorState}
	made, err := provider.applied(asked)
	if err == nil {
		answer.NewState, err = provider.write(asked.TypeName, made)
	}
	answer.Diagnostics = problem(err)
	return answer, nil
}

func (provider *provider) applied(asked *tfprotov5.ApplyResourceChangeRequest) (map[string]any, error) {
	prior, err := provider.read(asked.TypeName, asked.PriorState)
	if err != nil {
		return nil, err
	}
	planned, err := provider.read(asked.TypeName, asked.PlannedState)
	if err != nil {
		return nil, err
	}
	for key, value := range planned {
		if value == (unknown{}) {
			delete(planned, key)
		}
	}
	switch {
	case planned == nil:
		return nil, provider.cloud.remove(prior["id"].(string))
	case prior == nil:
		return provider.cloud.create(asked.TypeName, planned)
	default:
		return provider.cloud.update(prior["id"].(string), planned)
	}
}

func (provider *provider) ReadDataSource(
	_ context.Context, asked *tfprotov5.ReadDataSourceRequest,
) (*tfprotov5.ReadDataSourceResponse, error) {
	name := "data." + asked.TypeName
	values, err := provider.read(name, asked.Config)
	if err != nil {
		return &tfprotov5.ReadDataSourceResponse{Diagnostics: problem(err)}, nil
	}
	answer, there := sources[asked.TypeName]
	if !there {
		err := fmt.Errorf("nobody answers for %s", strings.TrimPrefix(name, "data."))
		return &tfprotov5.ReadDataSourceResponse{Diagnostics: problem(err)}, nil
	}
	for key, value := range answer(values) {
		values[key] = value
	}
	values["id"] = asked.TypeName
	state, err := provider.write(name, values)
	return &tfprotov5.ReadDataSourceResponse{State: state, Diagnostics: problem(err)}, nil
}
