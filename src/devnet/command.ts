/** What the commands of the devnet have in common: options, help, and one line for what goes wrong. */

import { readFileSync } from 'node:fs'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import type { ChainConfig } from '#client/answers.ts'
import type { Client } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { DEVNET_CHAIN_ID, devnetKey } from './accounts.ts'

type Hex = `0x${string}`

/** A line for the user of the command. */
export class CommandError extends Error {}

/** An option is missing, unknown or wrong: the command ends with 2. */
export class OptionError extends CommandError {}

type CommandOption = {
  /** What stands for its value in the help: `<seconds>`. */
  readonly value: string
  readonly help: string
  readonly default?: string
}

export const URL_OPTION: CommandOption = {
  value: '<url>',
  help: 'where the exchange is',
  default: 'http://127.0.0.1:8080',
}

type Command<Name extends string> = {
  /** As one calls it: `npm run devnet:warp --`. */
  readonly call: string
  readonly about: string
  readonly options: Readonly<Record<Name, CommandOption>>
  readonly run: (values: Readonly<Record<Name, string>>) => Promise<void>
}

/** Runs a command on the arguments of this process; an option that has no default is required. */
export async function runCommand<Name extends string>(command: Command<Name>): Promise<void> {
  try {
    const values = readOptions(command)
    if (values === 'help') process.stdout.write(helpOf(command))
    else await command.run(values)
  } catch (error) {
    process.stderr.write(`sibyl: ${wordsOf(error)}\n`)
    process.exitCode = error instanceof OptionError ? 2 : 1
  }
}

function readOptions<Name extends string>(
  command: Command<Name>,
): Readonly<Record<Name, string>> | 'help' {
  const names = Object.keys(command.options) as Name[]
  const strings = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]))
  const { values } = parsed({ ...strings, help: { type: 'boolean', short: 'h' } })
  if (values.help === true) return 'help'
  const given = values as Partial<Record<Name, string>>
  return Object.fromEntries(
    names.map((name) => {
      const value = given[name] ?? command.options[name].default
      if (value === undefined) {
        throw new OptionError(`--${name} is missing; ${command.call} --help has all options`)
      }
      return [name, value]
    }),
  ) as Record<Name, string>
}

function parsed(options: ParseArgsOptionsConfig) {
  try {
    return parseArgs({ options, allowPositionals: false })
  } catch (error) {
    throw new OptionError(wordsOf(error))
  }
}

function helpOf<Name extends string>({ call, about, options }: Command<Name>): string {
  const rows = Object.entries<CommandOption>(options).map(([name, option]) => {
    const ending = option.default === undefined ? '' : option.default && ` (${option.default})`
    return [`--${name} ${option.value}`, `${option.help}${ending}`] as const
  })
  const width = Math.max(...rows.map(([left]) => left.length))
  const lines = rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`)
  return `${about}\n\n  ${call} [options]\n\n${lines.join('\n')}\n`
}

function wordsOf(error: unknown): string {
  if (error instanceof SibylError && error.code === 'NETWORK') {
    return `no exchange answers there: is npm start running, and is --url right? (${error.message})`
  }
  return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
}

/** A whole number within bounds. */
export function readInteger(name: string, text: string, min: number, max: number): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw new CommandError(`--${name} is a whole number from ${min} to ${max}, not '${text}'`)
}

/** The local chain behind an exchange. */
export async function localChain(client: Client): Promise<ChainConfig & { rpcUrl: string }> {
  const { chains } = await client.config()
  const chain = chains.find(({ chainId }) => chainId === DEVNET_CHAIN_ID)
  if (chain?.rpcUrl !== undefined) return { ...chain, rpcUrl: chain.rpcUrl }
  throw new CommandError('this exchange has no local chain; npm start brings one')
}

/** A key from its file, or that of a well-known account: keys are never arguments. */
export function readKey(file: string, account: number): Hex {
  if (file === '') return devnetKey(account)
  let key: string
  try {
    key = readFileSync(file, 'utf8').trim()
  } catch {
    throw new CommandError(`--key-file: ${file} cannot be read`)
  }
  if (/^0x[0-9a-fA-F]{64}$/.test(key)) return key as Hex
  throw new CommandError(`--key-file: ${file} holds no private key, 0x and 64 hex digits`)
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
