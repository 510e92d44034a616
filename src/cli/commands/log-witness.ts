/**
 * `sibyl log witness`: cosigns checkpoints that are consistent with the last cosigned checkpoint of the same
 * log.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { OptionError, readInteger } from '#devnet/command.ts'
import { keyPairOf, makeNoteSigner } from '#transparency/node-signer.ts'
import { COSIGNATURE, isKeyName, verifierKeyText } from '#transparency/note.ts'
import { LogUnavailable } from '#transparency/remote-log.ts'
import type { Witness } from '#transparency/witness.ts'
import { command, READ_OPTIONS } from '../command.ts'
import { readKeyFile, urlOf } from '../connect.ts'
import { namedLogs } from '../public-logs.ts'
import { showJson } from '../show.ts'
import { openWitnessFolder } from '../witness/witness-folder.ts'
import { feedWitness, serveWitness } from '../witness/witness-server.ts'

const PORT_MAX = 65_535
const SECONDS_MAX = 86_400

export const logWitness = command({
  name: 'log witness',
  takes: '',
  about:
    'cosigns the checkpoints of an exchange as long as they are consistent (C2SP tlog-witness)',
  more:
    'The witness reads the checkpoints of the exchange every few seconds and, with --listen, also accepts POST /add-checkpoint. Do not\n' +
    'delete the folder of --state: it contains the cosigned checkpoints. A log that cannot be read is read again later. The witness\n' +
    'exits with 1 as soon as a log contradicts a checkpoint that the witness cosigned.',
  options: {
    name: {
      value: '<name>',
      help: 'name of the witness, such as witness.example/w1',
      required: true,
    },
    'key-file': {
      value: '<path>',
      help: 'file with the Ed25519 key of the witness, 0x and 64 hex digits',
      required: true,
    },
    state: {
      value: '<folder>',
      help: 'folder in which the witness stores cosigned checkpoints',
      required: true,
    },
    key: { value: '<keys>', help: 'verifier keys of the logs, separated by commas' },
    listen: {
      value: '<port>',
      help: 'port on 127.0.0.1 at which the witness serves the tlog-witness protocol',
    },
    every: {
      value: '<seconds>',
      help: 'seconds between two reads of the checkpoints',
      default: '5',
    },
    once: { help: 'reads the checkpoints once and exits' },
    ...READ_OPTIONS,
  },
  async run({ values, io }) {
    if (!isKeyName(values.name)) {
      throw new OptionError('--name must not contain spaces or plus signs')
    }
    const everySec = readInteger('every', values.every, 1, SECONDS_MAX)
    const port =
      values.listen === undefined ? undefined : readInteger('listen', values.listen, 0, PORT_MAX)
    const pair = keyPairOf(readKeyFile('--key-file', values['key-file']))
    const logs = await namedLogs(urlOf(values, io), values.key)
    const witness: Witness = {
      logs: new Map(logs.map(({ origin, key }) => [origin, [key]])),
      signer: makeNoteSigner(pair, values.name, COSIGNATURE),
      state: openWitnessFolder(values.state),
      nowSec: () => Math.floor(Date.now() / 1_000),
    }
    const verifierKey = verifierKeyText(witness.signer.key)
    io.out(values.json ? showJson({ verifierKey }) : `${verifierKey}\n`)
    const server = port === undefined ? undefined : serveWitness(witness)
    server?.listen(port, '127.0.0.1')
    try {
      while (!io.signal.aborted) {
        for (const log of logs) {
          const { origin } = log
          const size = await feedWitness(witness, log).catch((error: unknown) => {
            if (values.once || !(error instanceof LogUnavailable)) throw error
            io.err(`sibyl: ${error.message}; retrying in ${everySec} s\n`)
          })
          if (size === undefined) continue
          io.out(
            values.json
              ? showJson({ origin, size })
              : `${origin}  ${size} entries
`,
          )
        }
        if (values.once) return 0
        await pause(everySec * 1_000, undefined, { signal: io.signal }).catch(() => {})
      }
      return 0
    } finally {
      server?.close()
    }
  },
})
