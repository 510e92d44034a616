/**
 * Mistakes (mutants) that the simulator must find. Each mutant replaces a piece of code in a copy of the repository.
 * Seeds then run on the copy, in a separate process, until an invariant breaks.
 *
 * `npm run simulate -- --mutants` prints the broken invariant, the number of seeds and the processor time. `--mutants
 * permit` runs only the mutants with `permit` in their name.
 */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type Edit = { readonly file: string; readonly from: string; readonly to: string }

type Mutant = Edit & {
  readonly name: string
  /** Second edit, which disables another check that would hide the mistake. */
  readonly also?: Edit
  /** Options of the runs. */
  readonly with: readonly string[]
}

const MARKETS = ['--no-services']
const FILES = ['--no-services', '--kind', 'files']
const SERVICES = ['--services']
const MACHINES = ['--services', '--kind', 'server']
const SERVER = ['--no-services', '--kind', 'server']
const FUNDS = ['--services', '--funds']
const NODES = ['--cluster']
const CHAIN = ['--chain']

const MUTANTS: readonly Mutant[] = [
  {
    name: 'answers leave before the log has synced',
    file: 'src/runtime/serve.ts',
    from: `    return Promise.all([confirmed, commit]).then(
      ([isConfirmed]) => finish(isConfirmed),`,
    to: `    finish()
    return Promise.all([confirmed, commit]).then(
      () => {},`,
    with: SERVER,
  },
  {
    name: 'an owner does not ask whether it was taken over',
    file: 'src/services/market/thread/market-log.ts',
    from: '(events.takenOver?.() ?? Promise.resolve([]))',
    to: 'Promise.resolve([])',
    with: SERVER,
  },
  {
    name: 'a reload loses cancels',
    file: 'src/services/market/market.ts',
    from: `      if (event.remaining > 0) {
        const resting`,
    to: `      if (event.remaining > 0 && event.reason !== 'cancelled') {
        const resting`,
    with: MARKETS,
  },
  {
    name: 'a snapshot is one event too new',
    file: 'src/services/market/host/market-host.ts',
    from: 'hosted.state.seq = head.seq\n',
    to: 'hosted.state.seq = head.seq + 1\n',
    with: MARKETS,
  },
  {
    name: 'a snapshot forgets pending trades',
    file: 'src/services/market/host/market-host.ts',
    from: '  hosted.state.pending.restore(pending)\n',
    to: '',
    with: MARKETS,
  },
  {
    name: 'a failed trade returns its quantity twice',
    file: 'src/services/market/trades.ts',
    from: `      return from === 'matched' || from === 'submitted' || from === 'reverted'`,
    to: `      return from !== 'confirmed'`,
    with: MARKETS,
  },
  {
    name: 'a failed trade returns its quantity to the trader at fault',
    file: 'src/services/market/trades.ts',
    from: '    if (atFault.has(order.trader)) continue\n',
    to: '',
    with: MARKETS,
  },
  {
    name: 'traders match their own orders although the rules forbid it',
    file: 'src/services/market/orders.ts',
    from: '    selfTrade: state.rules.selfTrade,\n',
    to: `    selfTrade: 'allow' as const,\n`,
    with: MARKETS,
  },
  {
    name: 'ended orders are forgotten before they expire',
    file: 'src/services/market/host/housekeeping.ts',
    from: 'log.forgetClosed(partition, durableSec(thread, partition), FORGET_STEP)',
    to: 'log.forgetClosed(partition, durableSec(thread, partition) + 60, FORGET_STEP)',
    with: MARKETS,
  },
  {
    name: 'a returned order gets another first answer',
    file: 'src/services/market/orders.ts',
    from: '    matches: first?.matches ?? matches,\n  }\n  if (left',
    to: '    matches,\n  }\n  if (left',
    with: MARKETS,
  },
  {
    name: 'the clock of a market goes back after a restart',
    file: 'src/services/market/thread/start-markets.ts',
    from: 'nowMs: () => Math.max(lastMs, clock.nowMs())',
    to: 'nowMs: () => Math.max(0 * lastMs, clock.nowMs())',
    with: MARKETS,
  },
  {
    name: 'the end of a session is confirmed without proof',
    file: 'src/services/market/thread/start-markets.ts',
    from: '{ ...commands, isAway })',
    to: '{ hear: commands.hear, isAway })',
    with: MARKETS,
  },
  {
    name: 'a session ends while some markets are not loaded',
    file: 'src/services/market/host/session-ends.ts',
    from: ' && !this.#isAway()',
    to: '',
    also: {
      file: 'src/services/market/thread/serve-partitions.ts',
      from: ", 'Confirm'],",
      to: '],',
    },
    with: FILES,
  },
  {
    name: 'messages of the batch of a loaded part are lost',
    file: 'src/live/board-load.ts',
    from: '      batch.repeat()\n',
    to: '',
    with: MARKETS,
  },
  {
    name: 'a partition that wakes is not loaded',
    file: 'src/live/board-load.ts',
    from: '      if (idle.wake(partition) && !loading) void load()\n',
    to: '      idle.wake(partition)\n',
    with: MARKETS,
  },
  {
    name: 'the position of the projection is not written',
    file: 'src/store/projection/project.ts',
    from: 'update checkpoints set log_offset = ? where',
    to: 'update checkpoints set log_offset = log_offset + 0 * ? where',
    with: SERVICES,
  },
  {
    name: 'a failed projection counts as written',
    file: 'src/services/projector/projector.ts',
    from: '    progress.writing = false\n    failed(',
    to: '    progress.writing = false\n    progress.projected = progress.due\n    failed(',
    with: SERVICES,
  },
  {
    name: 'a write of the journal is not fenced',
    file: 'src/store/engine/database.ts',
    from: '        await passFence(fence, connection, transaction)\n        return changed',
    to: '        return changed',
    with: MACHINES,
  },
  {
    name: 'a transaction is sent although the journal failed',
    file: 'src/chain/sender/lane-ledger.ts',
    from: '      throw error\n    }\n    return numbered',
    to: '    }\n    return numbered',
    with: SERVICES,
  },
  {
    name: 'a reorg is ignored',
    file: 'src/chain/sender/lane-follower.ts',
    from: 'if (canonical !== undefined) return canonical.hash !== blockHash',
    to: 'if (canonical !== undefined) return false',
    with: SERVICES,
  },
  {
    name: 'trades are confirmed without confirmations',
    file: 'src/chain/sender/lane-follower.ts',
    from: 'receipt.blockNumber < policy.confirmations) return',
    to: 'receipt.blockNumber < 0) return',
    with: SERVICES,
  },
  {
    name: 'a batch that a reorg removed is not followed again',
    file: 'src/services/settlement/batches.ts',
    from: '    state.flight.vanished.push(update)\n',
    to: '',
    with: SERVICES,
  },
  {
    name: 'a trade fails in the name of both sides',
    file: 'src/services/settlement/retries.ts',
    from: `const blamed = fault === 'none' ? 'both' : fault`,
    to: `const blamed = fault === 'none' ? 'both' : 'both'`,
    with: SERVICES,
  },
  {
    name: 'an unanswered report is not repeated',
    file: 'src/services/settlement/settlement.ts',
    from: '      pending.reportAgainMs = context.nowMs + REPORT_AGAIN_MS\n',
    to: '      pending.reportAgainMs = Number.POSITIVE_INFINITY\n',
    with: SERVICES,
  },
  {
    name: 'a promise reserves nothing',
    file: 'src/services/accounts/account.ts',
    from: `  state.promises.set(orderHash, promised)
  const sums = holding ?? account.cash
  sums.promised += need`,
    to: `  state.promises.set(orderHash, { ...promised, need: 0n })
  const sums = holding ?? account.cash
  sums.promised += 0n`,
    with: FUNDS,
  },
  {
    name: 'a permit is reused',
    file: 'src/services/accounts/permits.ts',
    from: '  if (BigInt(permit) === permitsEnd) {',
    to: '  if (BigInt(permit) < permitsEnd) return undefined\n  if (BigInt(permit) === permitsEnd) {',
    with: FUNDS,
  },
  {
    name: 'requests for funds take the places of reservations',
    file: 'src/services/accounts/asking.ts',
    from: 'const share = asked.promises ? 1 : 0.5',
    to: 'const share = asked.promises ? 1 : 1',
    with: FUNDS,
  },
  {
    name: 'a market accepts an order after its reservation has ended',
    file: 'src/services/market/host/market-host.ts',
    from: 'thread.options.monotonicMs() > reservedUntilMs',
    to: 'Number.NaN > reservedUntilMs',
    with: FUNDS,
  },
  {
    name: 'a permit of a waiting order does not take the place of an ended one',
    file: 'src/services/accounts/permits.ts',
    from: '  if (next !== undefined) nonces.set(number, next)\n',
    to: '  void next\n',
    with: FUNDS,
  },
  {
    name: 'a node takes a slot without the next epoch',
    file: 'src/services/node/directory.ts',
    from: 'const epoch = (this.#epochs.get(slot) ?? 0) + 1',
    to: 'const epoch = Math.max(1, this.#epochs.get(slot) ?? 0)',
    with: NODES,
  },
  {
    name: 'a node takes slots before it knows the others',
    file: 'src/services/node/directory.ts',
    from: 'if (this.#leaving || this.#unfit || !this.isSettled(nowMs)) return duties',
    to: 'if (this.#leaving || this.#unfit) return duties',
    with: NODES,
  },
  {
    name: 'a node keeps a slot that another has taken',
    file: 'src/services/node/directory.ts',
    from: 'if (rival === undefined && !this.#leaving) continue',
    to: 'if (!this.#leaving) continue',
    with: NODES,
  },
  {
    name: 'a node without a copy of the log takes the slot of a dead node',
    file: 'src/services/node/directory.ts',
    from: 'warm === true && offers.includes(slot)',
    to: 'warm !== undefined && offers.includes(slot)',
    with: NODES,
  },
  {
    name: 'a forged heartbeat counts',
    file: 'src/services/node/signed-line.ts',
    from: 'if (timingSafeEqual(signed.subarray(end), signatureOf(context, bytes))) return bytes',
    to: 'if (timingSafeEqual(signed.subarray(end), signed.subarray(end))) return bytes',
    with: NODES,
  },
  {
    name: 'a settlement of a market has too little gas for its payouts',
    file: 'src/services/resolution/thread/resolution-ports.ts',
    from: 'Math.max(GAS_MIN, Number(simulated.gas))',
    to: 'Math.min(GAS_MIN, Number(simulated.gas))',
    with: CHAIN,
  },
  {
    name: 'a failed report of payouts is not repeated',
    file: 'src/services/resolution/thread/resolution-ports.ts',
    from: 'const found: ResolutionDue[] = unpaid.map(',
    to: 'const found: ResolutionDue[] = unpaid.slice(unpaid.length).map(',
    with: CHAIN,
  },
  {
    name: 'a settlement of a market is sent again after a restart',
    file: 'src/services/resolution/resolution.ts',
    from: `    for (const reference of open) state.underway.set(reference, { stage: 'follow', nonce: 0 })\n`,
    to: '    void open\n',
    with: CHAIN,
  },
  {
    name: 'a reorg gives back the unused gas of a relayed operation twice',
    file: 'src/services/relayer/following.ts',
    from: '      unmined(state, one, context)\n',
    to: '      one.isMined = false\n',
    with: CHAIN,
  },
  {
    name: 'the relayer forgets what an owner has spent',
    file: 'src/services/relayer/budgets.ts',
    from: 'if (owner.gas[purpose] + gas > most) {',
    to: 'if (gas > most) {',
    with: CHAIN,
  },
  {
    name: 'a refused operation blocks the next one of its owner',
    file: 'src/services/relayer/turns.ts',
    from: '  if (one.isHolding) state.ports.lift(one.key)\n  pass(state, one, context)\n',
    to: '  if (one.isHolding) state.ports.lift(one.key)\n',
    with: CHAIN,
  },
  {
    name: 'a relayed operation that was not sent stays open after a restart',
    file: 'src/services/relayer/relayer.ts',
    from: `reason: NEVER_SENT }, context)
      write(state, { change, turn: 0 }, context)
    }
    state.closedFor`,
    to: `reason: NEVER_SENT }, context)
      void change
    }
    state.closedFor`,
    with: CHAIN,
  },
  {
    name: 'a relayed operation stays open if the answer about its row is lost',
    file: 'src/services/relayer/relayer.ts',
    from: `at === 'open' && one.trial !== undefined ? one.attempt + 1 : one.attempt`,
    to: `at === 'open' && one.trial !== undefined ? one.attempt : one.attempt`,
    with: CHAIN,
  },
  {
    name: 'a relayed operation that a reorg moves keeps the gas of its first block',
    file: 'src/services/relayer/following.ts',
    from: '      if (one.isMined) unmined(state, one, context)\n',
    to: '',
    with: CHAIN,
  },
  {
    name: 'a relayed settlement of a market has too little gas for its payouts',
    file: 'src/services/relayer/chain/relay-examiner.ts',
    from: 'const SETTLE_GAS_MIN = 400_000n',
    to: 'const SETTLE_GAS_MIN = 1n',
    with: CHAIN,
  },
  {
    name: 'a front does not follow orders that are withdrawn on the chain',
    file: 'src/live/withdrawn-orders.ts',
    from: '          traders.changed(chainId, event.trader)\n',
    to: '',
    with: CHAIN,
  },
  {
    name: 'a front does not follow the revocation of a delegate',
    file: 'src/live/delegates.ts',
    from: `if (event.type === 'DelegateSet') accounts`,
    to: `if (event.type === 'DelegateSet' && event.untilSec > 0) accounts`,
    with: CHAIN,
  },
  {
    name: 'orders of a revoked delegate stay open',
    file: 'src/store/reads/chain-markets.ts',
    from: '...undelegated, ...filled]',
    to: '...undelegated.slice(undelegated.length), ...filled]',
    with: CHAIN,
  },
  {
    name: 'orders that a nonce withdraws on the chain stay open',
    file: 'src/store/reads/chain-markets.ts',
    from: '...below, ...undelegated',
    to: '...below.slice(below.length), ...undelegated',
    with: CHAIN,
  },
  {
    name: 'a batch of redemptions claims only its first market',
    file: 'src/services/relayer/chain/relay-redemptions.ts',
    from: '    return { claims, ownBond: false }\n',
    to: '    return { claims: claims.slice(0, 1), ownBond: false }\n',
    with: CHAIN,
  },
]

/** Folders and files of the tree that a copy needs. */
const TREE = ['config', 'contracts', 'src', 'test', 'workers', 'package.json', 'tsconfig.json']

/**
 * Runs the mutants with this text in their name, each for at most `seconds`. Returns how many mutants were not found.
 */
export async function runMutants(text: string, seconds: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-mutants-'))
  let missed = 0
  try {
    for (const each of TREE) cpSync(each, join(folder, each), { recursive: true })
    symlinkSync(join(process.cwd(), 'node_modules'), join(folder, 'node_modules'))
    for (const mutant of MUTANTS.filter(({ name }) => name.includes(text))) {
      const found = await withMutant(folder, mutant, () => run(folder, mutant, seconds))
      if (found === undefined) missed++
      console.log(`| ${mutant.name} | ${found ?? `not found in ${seconds} s`} |`)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return missed
}

async function withMutant<Result>(
  folder: string,
  { name, also, ...first }: Mutant,
  work: () => Promise<Result>,
): Promise<Result> {
  const edits = also === undefined ? [first] : [first, also]
  const before = edits.map(({ file, from, to }) => {
    const path = join(folder, file)
    const text = readFileSync(path, 'utf8')
    assert.equal(text.split(from).length, 2, `${name}: its text must be in ${file} once`)
    writeFileSync(
      path,
      text.replace(from, () => to),
    )
    return { path, text }
  })
  try {
    return await work()
  } finally {
    for (const { path, text } of before) writeFileSync(path, text)
  }
}

/** Returns the broken invariant, the number of seeds and the processor time in seconds; undefined if no seed broke one. */
function run(folder: string, mutant: Mutant, seconds: number): Promise<string | undefined> {
  const options = ['--until-failure', '--no-shrink', '--minutes', '2', '--seconds', String(seconds)]
  const program = ['--import', './src/loader/hooks.js', 'test/simulate/run.ts']
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      [...program, ...options, ...mutant.with],
      { cwd: folder, maxBuffer: 64 * 1024 * 1024 },
      (_error, stdout, stderr) => {
        const invariant = /^seed \d+: ([a-z-]+|[A-Za-z]*Error)\b/m.exec(stdout)?.[1]
        const spent = /in ([\d.]+) s of processor time/.exec(stdout)?.[1]
        const seeds = /^(\d+) seeds,/m.exec(stdout)?.[1]
        if (spent === undefined) reject(new Error(`${mutant.name}: ${stderr}`))
        else resolve(invariant === undefined ? undefined : `${invariant} | ${seeds} | ${spent}`)
      },
    )
  })
}
