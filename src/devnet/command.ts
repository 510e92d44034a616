/** Common parts of the operators' scripts: options, help, and one line per error. */

import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { SibylError } from '#client/sibyl-error.ts'
import { endWithReader } from './reader-gone.ts'

/** An error whose message is meant for the user of the command. */
export class CommandError extends Error {}

/** An option is missing, unknown or wrong: the command exits with 2. */
export class OptionError extends CommandError {}

type CommandOption = {
  /** Placeholder for the option's value in the help, such as `<seconds>`. */
  readonly value: string
  readonly help: string
  readonly default?: string
}

type Command<Name extends string> = {
  /** Command line without arguments, as the help shows it: `npm run devnet:warp --`. */
  readonly call: string
  readonly about: string
  readonly options: Readonly<Record<Name, CommandOption>>
  readonly run: (values: Readonly<Record<Name, string>>) => Promise<void>
}

/** Runs a command with the arguments of this process; an option without a default is required. */
export async function runCommand<Name extends string>(command: Command<Name>): Promise<void> {
  endWithReader()
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
  const { values } = parsed({ ...strings, help: { type: 'boolean', short: 'h' } }, command.call)
  if (values.help === true) return 'help'
  const given = values as Partial<Record<Name, string>>
  return Object.fromEntries(
    names.map((name) => {
      const value = given[name] ?? command.options[name].default
      if (value === undefined) {
        throw new OptionError(`--${name} is missing; ${command.call} --help lists all options`)
      }
      return [name, value]
    }),
  ) as Record<Name, string>
}

function parsed(options: ParseArgsOptionsConfig, call: string) {
  try {
    return parseArgs({
      options,
      allowPositionals: false,
      args: withNegatives(process.argv.slice(2)),
    })
  } catch (error) {
    const [what = ''] = wordsOf(error).split('. ')
    throw new OptionError(`${what.replace(/\.$/, '')}; ${call} --help lists all options`)
  }
}

/**
 * Joins an option with a negative number after it, so `--seconds -5` becomes `--seconds=-5`. Otherwise `-5` would count
 * as another option.
 */
export function withNegatives(args: readonly string[]): string[] {
  const joined: string[] = []
  for (const each of args) {
    const before = joined.at(-1) ?? ''
    const isValue = /^-\d/.test(each) && /^--[^=]+$/.test(before)
    if (isValue) joined[joined.length - 1] = `${before}=${each}`
    else joined.push(each)
  }
  return joined
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
    return `no exchange answers at this URL: is npm start running, and is --url right? (${error.message})`
  }
  return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
}

/** Parses an integer within bounds. */
export function readInteger(name: string, text: string, min: number, max: number): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw new OptionError(`--${name} must be a whole number from ${min} to ${max}, not '${text}'`)
}
