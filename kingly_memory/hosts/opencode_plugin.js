// kingly-memory: `kingly-memory config opencode --write` wrote this file, `--remove` deletes it.
// It puts notes beside a prompt, and has what was said captured when a turn has ended.
import { execFile } from "node:child_process"

const COMMAND = []
const VARIABLES = {}
const [RECALL_MS, CAPTURE_MS] = [5000, 30000]

export const KinglyMemory = async ({ client, directory }) => {
  const starts = new Map() // by session: why it starts, for its next prompt; "" once it was told the notes of a start
  const turns = new Map() // by session: the first message that was not handed over yet
  const running = new Set()

  // What the hook says; nothing when it fails, since it must never stand in the way.
  const hook = (event, facts, timeout) =>
    new Promise((resolve) => {
      const [program, ...options] = [...COMMAND, "hook", event, "opencode"]
      const env = { ...process.env, ...VARIABLES }
      const child = execFile(program, options, { cwd: directory, env, timeout }, (_, said) => resolve(said))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify({ hook_event_name: event, cwd: directory, ...facts }))
    }).catch(() => "")

  const notes = async (event, facts) => {
    const said = await hook(event, facts, RECALL_MS)
    return said ? JSON.parse(said).hookSpecificOutput.additionalContext : ""
  }

  // A subagent's prompts are another agent's words.
  const isSubagent = async (session) => Boolean((await client.session.get({ path: { id: session } })).data?.parentID)

  const spoken = (parts) =>
    parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored).map((part) => part.text)

  // `opencode run` puts the prompt of its command line into quotes.
  const asked = (parts) =>
    spoken(parts).join("\n").replace(/^"((?:[^"\\]|\\[^])*)"$/, (_, text) => text.replaceAll('\\"', '"'))

  const capture = async (session) => {
    const first = turns.get(session)
    if (!first) return
    turns.delete(session)
    const messages = (await client.session.messages({ path: { id: session } })).data ?? []
    const begin = messages.findIndex(({ info }) => info.id === first)
    const transcript = messages.slice(Math.max(begin, 0)).filter(({ info }) => !info.summary || info.role === "user")
    const entries = transcript.map(({ info, parts }) => ({
      id: info.id,
      timestamp: new Date(info.time.created).toISOString(),
      role: info.role,
      message: { content: info.role === "user" ? asked(parts) : spoken(parts).join("\n") },
    }))
    await hook("Stop", { session_id: session, transcript: entries }, CAPTURE_MS)
  }

  return {
    "chat.message": async ({ sessionID: session }, { message, parts }) => {
      try {
        if (await isSubagent(session)) return
        if (!turns.has(session)) turns.set(session, message.id)
        const source = starts.get(session) ?? "startup"
        starts.set(session, "")
        const texts = [
          source && (await notes("SessionStart", { session_id: session, source })),
          await notes("UserPromptSubmit", { session_id: session, prompt: asked(parts) }),
        ]
        for (const [at, text] of texts.entries())
          if (text) {
            const id = `${parts.at(-1).id}${at}` // sorts behind the last one
            parts.push({ id, sessionID: session, messageID: message.id, type: "text", synthetic: true, text })
          }
      } catch {}
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID
      if (event.type === "session.compacted") starts.set(session, "compact")
      if (event.type !== "session.idle") return
      const one = capture(session).catch(() => {})
      running.add(one)
      await one.finally(() => running.delete(one))
    },
    // `opencode run` ends as soon as the turn has.
    dispose: async () => void (await Promise.all(running)),
  }
}
