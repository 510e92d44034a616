/** Reads the command line of the load tester. A wrong option causes an error with one clear line. */

import { parseArgs } from 'node:util'
import { withNegatives } from '#devnet/command.ts'
import { PROFILES } from './profiles/all.ts'

export type LoadOptions = {
  readonly url: string
  readonly profile: string
  readonly rate: number
  readonly seconds: number
  readonly markets: number
  readonly traders: number
  readonly sockets: number
  readonly connections: number
  readonly seed: number
  /** Path of the report, without its endings `.json` and `.html`. */
  readonly out: string
}

/** The exchange cannot be reached: nothing was measured, so there is no report. */
export class TargetError extends Error {}

/** An error that the user of the command can fix; shown without a stack. */
export class UsageError extends Error {}

const NUMBERS = {
  rate: { least: 0.1, most: 1_000_000, what: 'operations per second' },
  seconds: { least: 1, most: 604_800, what: 'duration in seconds' },
  markets: { least: 1, most: 100_000, what: 'number of markets of the exchange to use' },
  traders: { least: 1, most: 1_000_000, what: 'number of traders' },
  sockets: { least: 0, most: 1_000_000, what: 'number of WebSockets that follow books and trades' },
  connections: { least: 1, most: 60_000, what: 'number of HTTP connections' },
  seed: {
    least: 0,
    most: 2 ** 31 - 1,
    what: 'seed of the plan; the same seed gives the same plan',
  },
} as const

type NumberName = keyof typeof NUMBERS
const WHOLE: readonly NumberName[] = ['markets', 'traders', 'sockets', 'connections', 'seed']

export function usage(): string {
  const names = Object.entries(PROFILES).map(([name, { about }]) => `  ${name.padEnd(8)} ${about}`)
  const numbers = Object.entries(NUMBERS).map(
    ([name, { what }]) => `  --${name.padEnd(12)} ${what}`,
  )
  return [
    'npm run load -- smoke --url http://127.0.0.1:8080 [--out folder/name]',
    '',
    'profiles:',
    ...names,
    '',
    'options that override the profile:',
    ...numbers,
  ].join('\n')
}

export function readOptions(args: readonly string[], nowMs: number): LoadOptions {
  const values = valuesOf(args)
  const profileName = String(values.profile ?? 'smoke')
  const profile = Object.hasOwn(PROFILES, profileName) ? PROFILES[profileName] : undefined
  if (profile === undefined) {
    const known = Object.keys(PROFILES).join(', ')
    throw new UsageError(`there is no profile "${profileName}"; the profiles are ${known}`)
  }
  const url = urlOf(String(values.url ?? 'http://127.0.0.1:8080'))
  const number = (name: NumberName, otherwise: number): number => {
    const text = values[name]
    if (text === undefined) return otherwise
    const { least, most } = NUMBERS[name]
    const value = Number(text)
    const fits = text !== '' && value >= least && value <= most
    if (!fits || (WHOLE.includes(name) && !Number.isInteger(value))) {
      const kind = WHOLE.includes(name) ? 'a whole number' : 'a number'
      throw new UsageError(`--${name} must be ${kind} from ${least} to ${most}, not "${text}"`)
    }
    return value
  }
  const stamp = new Date(nowMs).toISOString().slice(0, 19).replaceAll(':', '')
  return {
    url,
    profile: profileName,
    rate: number('rate', profile.rate),
    seconds: number('seconds', profile.seconds),
    markets: number('markets', profile.markets),
    traders: number('traders', profile.traders),
    sockets: number('sockets', profile.sockets),
    connections: number('connections', profile.connections),
    seed: number('seed', nowMs % 1_000_000),
    out: String(values.out ?? `loadtest/reports/${profileName}-${stamp}`).replace(/\.json$/, ''),
  }
}

function valuesOf(args: readonly string[]): Record<string, string | undefined> {
  const names = ['url', 'profile', 'out', ...Object.keys(NUMBERS)]
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]))
  try {
    return parseArgs({ args: withNegatives(args), options, strict: true }).values as Record<
      string,
      string
    >
  } catch (error) {
    const line = error instanceof Error ? error.message.split('. ')[0] : String(error)
    throw new UsageError(`${line}; --help lists all options`)
  }
}

function urlOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.hostname === '') {
    throw new UsageError(
      `--url must be like http://127.0.0.1:8080 or https://exchange.example, not "${text}"`,
    )
  }
  return url.origin
}
