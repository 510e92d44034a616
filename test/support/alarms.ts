/** Reads the alarms and the dashboard for operators, and checks that the exchange exports the metrics that they use. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseYaml } from '@redocly/openapi-core'
import { Registry } from 'prom-client'
import type { ThreadContext } from '#services/kit/kit.ts'
import { leaseMeters } from '#services/kit/lease-metrics.ts'
import { mysqlLogWatch } from '#services/market/mysql-log-metrics.ts'
import { logCopyMeters } from '#services/node/log-copy-metrics.ts'
import { bridgeMeters } from '#services/node/metrics.ts'
import { ROOT } from './imports.ts'

const textOf = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

type Rule = {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly runbook: string }
}
type Rules = { readonly groups: readonly { readonly rules: readonly Rule[] }[] }
type Dashboard = {
  readonly templating: { readonly list: readonly { readonly query: string }[] }
  readonly panels: readonly {
    readonly title: string
    readonly targets?: readonly { readonly expr: string }[]
  }[]
}

const { groups } = parseYaml(textOf('config/monitoring/prometheus-rules.yml')) as Rules
export const rules = groups.flatMap((group) => group.rules)
const dashboard = JSON.parse(textOf('config/monitoring/grafana-dashboard.json')) as Dashboard

/** Returns the names of the metrics in an expression: those of Sibyl, Node and the process. */
export function metricsIn(expr: string): string[] {
  return expr.match(/\b(sibyl|nodejs|process)_[a-z0-9_]+/g) ?? []
}

/** Returns whether the metric is exported: `a_bucket`, `a_sum` and `a_count` belong to the histogram `a`. */
function isExported(name: string, kinds: ReadonlyMap<string, string>): boolean {
  const histogram = /^(.*)_(bucket|sum|count)$/.exec(name)?.[1]
  return kinds.has(name) || (histogram !== undefined && kinds.get(histogram) === 'histogram')
}

/**
 * Returns the kind of each metric, by name. The result contains the metrics of the running exchange, and those that a
 * cluster node adds.
 */
async function exportedBy(url: string): Promise<Map<string, string>> {
  const registry = new Registry()
  const quiet = { warn: () => {}, error: () => {}, info: () => {}, debug: () => {} }
  const kit = { registry, log: quiet, monotonicMs: () => 0 } as unknown as ThreadContext
  mysqlLogWatch(kit)
  bridgeMeters(kit, () => undefined)
  logCopyMeters(kit)
  leaseMeters(kit, new Map(), 6_000)
  const texts = [await (await fetch(`${url}/metrics`)).text(), await registry.metrics()]
  const kinds = texts.join('\n').matchAll(/^# TYPE (\S+) (\S+)$/gm)
  return new Map([...kinds].map(([, name = '', kind = '']) => [name, kind]))
}

/**
 * Asserts that the running exchange exports every metric of the alarms and the dashboard. The exchange must have a
 * chain, `risk.funds` and `resolution.autoSettle`.
 */
export async function assertMetricsExported(url: string): Promise<void> {
  const kinds = await exportedBy(url)
  assert(kinds.size > 80)
  const expressions = [
    ...rules.map(({ alert, expr }) => ({ where: alert, expr })),
    ...dashboard.panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => ({ where: title, expr })),
    ),
    ...dashboard.templating.list.map(({ query }) => ({ where: 'a variable', expr: query })),
  ]
  const unknown = expressions.flatMap(({ where, expr }) =>
    metricsIn(expr)
      .filter((name) => !isExported(name, kinds))
      .map((name) => `${where}: ${name}`),
  )
  assert.deepEqual(unknown, [])
  assert(isExported('sibyl_settlement_seconds_bucket', kinds))
  assert(!isExported('sibyl_settlement_minutes', kinds))
  assert(!isExported('sibyl_thread_ready_bucket', kinds), 'a gauge has no buckets')
}
