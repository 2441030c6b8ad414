// A browser starts no Worker for a page that is opened from a disk, and the site's search runs in one.
// For such a page, a Worker is a hidden frame that its script runs in. (The offline plugin would fetch
// such a stand-in from the network at every visit; a file of this name replaces it.)
class FrameWorker extends EventTarget {
  constructor(script) {
    super();
    const frame = document.body.appendChild(document.createElement("iframe"));
    frame.hidden = true;
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => {
      this.dispatchEvent(new MessageEvent("message", { data }));
    };
    this.ready = new Promise((loaded, failed) => {
      const element = this.inside.document.createElement("script");
      Object.assign(element, { src: script, onload: loaded, onerror: failed });
      this.inside.document.head.append(element);
    });
  }

  async postMessage(data) {
    await this.ready;
    this.inside.dispatchEvent(new MessageEvent("message", { data }));
  }
}

if (location.protocol === "file:") {
  window.Worker = FrameWorker;
}
