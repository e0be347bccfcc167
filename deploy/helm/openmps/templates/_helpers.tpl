{{/* Names and labels of the chart. */}}
{{- define "openmps.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "openmps.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "openmps.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "openmps.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "openmps.selector" -}}
app.kubernetes.io/name: {{ include "openmps.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "openmps.labels" -}}
{{ include "openmps.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "openmps.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "openmps.account" -}}
{{ .Values.serviceAccount.name | default (printf "%s-agent" (include "openmps.fullname" .)) }}
{{- end }}
