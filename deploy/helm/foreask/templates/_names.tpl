{{/* A long name ends with its digest, because two releases may have equal starts. */}}
{{- define "foreask.fullname" -}}
{{- $name := .Values.nameOverride | default (contains "foreask" .Release.Name | ternary .Release.Name (printf "%s-foreask" .Release.Name)) -}}
{{- gt (len $name) 36 | ternary (printf "%s-%s" ($name | trunc 27 | trimSuffix "-") (sha256sum $name | trunc 8)) $name -}}
{{- end }}

{{- define "foreask.version" -}}
{{- .Values.image.tag | default .Chart.AppVersion -}}
{{- end }}

{{/* Labels that never change: selectors contain them. Arguments: root, component. */}}
{{- define "foreask.selector" -}}
app.kubernetes.io/name: foreask
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "foreask.labels" -}}
{{ include "foreask.selector" . }}
app.kubernetes.io/version: {{ include "foreask.version" .root | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "foreask.image" -}}
{{- $image := .Values.image -}}
{{- printf "%s:%s" $image.repository (include "foreask.version" .) -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{- define "foreask.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "foreask.fullname" .) "default") -}}
{{- end }}

{{- define "foreask.claim" -}}
{{- with .Values.store.claim -}}
{{- .existing | default (.create | ternary (printf "%s-uploads" (include "foreask.fullname" $)) "") -}}
{{- end -}}
{{- end }}

{{/* Whether the cluster has an API. Arguments: root, api. */}}
{{- define "foreask.hasApi" -}}
{{- if or (.root.Capabilities.APIVersions.Has .api) (has .api .root.Values.apiVersions) }}true{{ end -}}
{{- end }}

{{/* A number of values may arrive as a float, which would be printed as 1.048576e+08. */}}
{{- define "foreask.text" -}}
{{- if kindIs "float64" . }}{{ eq (floor .) . | ternary (printf "%.0f" .) (toString .) }}{{ else }}{{ toString . }}{{ end -}}
{{- end }}
