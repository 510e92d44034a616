/** Text of `--help`: for all commands, for a group of commands, and for one command. */

import type { Command, Option } from './command.ts'

const INTRO = `Trades on a Sibyl exchange, watches it and checks it.

  sibyl <command> [options]
`

const OUTRO = `
sibyl <command> --help describes a command. Name a market by its id, by the first digits of it, or by
words that only its question has. Amounts are in dollars and shares: 0.42, 10, 2.5.

  SIBYL_URL         the address of the exchange
  SIBYL_TRADER_KEY  the private key of the trader, or the path of a file with it
  SIBYL_KEYS_DIR    where API keys are kept (~/.sibyl/keys)
`

export function helpOfAll(commands: readonly Command[]): string {
  return `${INTRO}\n${listOf(commands)}${OUTRO}`
}

/** Returns the help for the commands whose first word is `group`. */
export function helpOfGroup(group: string, commands: readonly Command[]): string {
  return `${listOf(commands)}\nsibyl ${group} <command> --help describes a command.\n`
}

export function helpOf(command: Command): string {
  const { name, takes, about, more, options } = command
  const rows = Object.entries<Option>(options).map(([option, { value, help, ...rest }]) => [
    `--${option}${value === undefined ? '' : ` ${value}`}`,
    `${help}${rest.default === undefined || rest.default === '' ? '' : ` (${rest.default})`}`,
  ])
  const usage = `sibyl ${[name, takes].join(' ').trimEnd()} [options]`
  return `${[about, ...(more === undefined ? [] : [more])].join('\n')}\n\n  ${usage}\n\n${columns(rows)}`
}

function listOf(commands: readonly Command[]): string {
  return columns(commands.map(({ name, takes, about }) => [`${name} ${takes}`.trimEnd(), about]))
}

function columns(rows: readonly (readonly string[])[]): string {
  const width = Math.max(...rows.map(([left = '']) => left.length))
  return rows.map(([left = '', right]) => `  ${left.padEnd(width)}  ${right}\n`).join('')
}
