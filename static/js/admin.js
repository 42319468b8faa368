// What the admin's scripts make and leave unnamed: two scroll bars that are called alike, and marks that may have no name.
addEventListener("load", () => {
  setTimeout(() => { // after Django's own
    for (const [index, region] of [...document.querySelectorAll(".simplebar-content-wrapper[role=region]")].entries()) {
      region.setAttribute("aria-label", region.closest("#nav-sidebar-apps") ? "Navigation" : `Rows ${index}`);
    }
    for (const mark of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) mark.setAttribute("role", "img");
  });
});
